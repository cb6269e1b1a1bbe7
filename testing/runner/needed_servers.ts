/**
 * Finds the servers that test files need, for them and their child processes.
 *
 * @module
 */
import process from "node:process";
import { preparePrograms } from "../interop/peer_programs.ts";
import { findServer, type ServerKind, sourceVariable } from "../servers/find.ts";
import { strategyOf } from "./select.ts";

const KINDS: readonly ServerKind[] = ["redis", "zookeeper"];

/**
 * Finds the servers, and passes them on in the environment.
 *
 * @param files The test files.
 * @param given The servers that need no search.
 * @param print Gets a line about each server.
 * @throws {Error} If one is missing; the message says what to install.
 */
export async function findNeededServers(
  files: readonly string[],
  given: readonly ServerKind[],
  print: (line: string) => void,
): Promise<void> {
  const problems: string[] = [];
  for (const kind of KINDS) {
    if (given.includes(kind) || !files.some((file) => strategyOf(file) === kind)) continue;
    try {
      const { source, line } = await findServer(kind);
      process.env[sourceVariable(kind)] = JSON.stringify(source);
      print(line);
    } catch (error) {
      problems.push((error as Error).message);
    }
  }
  if (problems.length > 0) {
    throw new Error(
      `${problems.join("\n")}\nOr run the tests that need no such server, with --only`,
    );
  }
  // A missing program only skips its tests: it does not stop the run.
  if (files.some((file) => /\binterop\/zookeeper/.test(file))) {
    for (const { line } of Object.values(await preparePrograms())) print(`For comparison: ${line}`);
  }
}
