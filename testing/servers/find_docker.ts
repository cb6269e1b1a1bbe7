/**
 * Finds the Docker images of servers, as `compose.yaml` names them.
 *
 * @module
 */

import { readFile } from "node:fs/promises";
import { runCommand } from "./command.ts";

const ANSWER_BOUND_MS = 3_000;
const PULL_BOUND_MS = 300_000;

/** The image of a service, pulled if necessary; undefined without a Docker daemon or the image. */
export async function findDocker(service: string): Promise<string | undefined> {
  const answer = await runCommand(["docker", "info"], ANSWER_BOUND_MS);
  if (!answer.success) return undefined;
  const image = imageOf(
    service,
    await readFile(new URL("../../compose.yaml", import.meta.url), "utf8"),
  );
  const present = await runCommand(["docker", "image", "inspect", image], ANSWER_BOUND_MS);
  if (present.success) return image;
  const pull = await runCommand(["docker", "pull", image], PULL_BOUND_MS);
  return pull.success ? image : undefined;
}

/** Reads a service's image name from the text of a compose file. */
export function imageOf(service: string, compose: string): string {
  const block = new RegExp(`^  ${service}:\\n(?:    .*\\n|\\n)*?    image: (\\S+)`, "m");
  const image = block.exec(compose)?.[1];
  if (image === undefined) throw new Error(`compose.yaml names no image for ${service}: add one`);
  return image;
}
