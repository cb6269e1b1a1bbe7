/**
 * Starts something guarded, prints its process id and directory, and waits to be killed.
 *
 * @module
 */

import { startGuarded } from "../guarded_process.ts";
import { startRedis } from "../redis.ts";

const held = Deno.args[0] === "redis" ? await holdRedis() : await holdSleep();
await Deno.stdout.write(new TextEncoder().encode(`${JSON.stringify(held)}\n`));
await new Promise(() => setInterval(() => {}, 60_000));

async function holdRedis() {
  const { pid, port } = await startRedis();
  return { pid, port };
}

async function holdSleep() {
  const directory = await Deno.makeTempDir({ prefix: "holdfast-" });
  const { pid } = await startGuarded({ command: ["sleep", "300"], remove: directory });
  return { pid, directory };
}
