/**
 * Starts a guarded process, prints its process id with its directory or port, and waits to be killed.
 *
 * @module
 */

import { makeTempDirectory } from "../../runtime/temporary_files.ts";
import { print, scriptArgument } from "../../runtime/processes.ts";
import { startGuarded } from "../guarded_process.ts";
import { startRedis } from "../redis.ts";

const held = scriptArgument() === "redis" ? await holdRedis() : await holdSleep();
print(`${JSON.stringify(held)}\n`);
await new Promise(() => setInterval(() => {}, 60_000));

async function holdRedis() {
  const { pid, port } = await startRedis();
  return { pid, port };
}

async function holdSleep() {
  const directory = await makeTempDirectory();
  const { pid } = await startGuarded({ command: ["sleep", "300"], remove: directory });
  return { pid, directory };
}
