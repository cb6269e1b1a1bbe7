/**
 * Starts a process for one version and gives it jobs.
 *
 * @module
 */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Answers, Reply, Requests, VersionArguments } from "./jobs.ts";

/** The process of one version. */
export interface VersionProcess extends AsyncDisposable {
  /** Gives it a job; one at a time. */
  ask<K extends keyof Requests>(kind: K, request: Requests[K]): Promise<Answers[K]>;
}

/** Starts a version with the configuration of its own checkout, whose lock file stays as it is. */
export function startVersion(title: string, given: VersionArguments): VersionProcess {
  const tree = fileURLToPath(given.tree);
  const script = fileURLToPath(new URL("./child.ts", import.meta.url));
  const child = spawn(
    Deno.execPath(),
    [
      ...["run", "-A", "--frozen", "--config", `${tree}deno.json`],
      ...[script, JSON.stringify(given)],
    ],
    { cwd: tree, stdio: ["pipe", "pipe", "inherit"] },
  );
  const exited = new Promise<void>((resolve) => child.on("exit", () => resolve()));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    async ask(kind, request) {
      child.stdin.write(`${JSON.stringify({ kind, ...request })}\n`);
      const { value, done } = await lines.next();
      if (done) throw new Error(`The process of the ${title} version has ended`);
      const reply: Reply = JSON.parse(value);
      if ("error" in reply) throw new Error(`The ${title} version failed: ${reply.error}`);
      return reply.answer as Answers[typeof kind];
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await exited;
    },
  };
}
