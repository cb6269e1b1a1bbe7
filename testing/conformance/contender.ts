/**
 * The other process of {@linkcode startContender}.
 *
 * @module
 */
import { type LockSpec, openLock } from "./open_lock.ts";
import type { Task } from "./process.ts";
import type { DistributedLock } from "../../mod.ts";

function say(line: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(`${line}\n`));
}

/** A read-modify-write that loses updates unless it is alone. */
async function addOne(file: string): Promise<void> {
  const value = Number(await Deno.readTextFile(file));
  await Promise.resolve();
  await Deno.writeTextFile(file, String(value + 1));
}

async function count(lock: DistributedLock, task: Task & { do: "count" }): Promise<void> {
  const contend = async () => {
    for (let round = 0; round < task.rounds; round++) {
      await using lease = await lock.acquire(task.name);
      lease.throwIfLost();
      await addOne(task.file);
    }
  };
  await Promise.all(Array.from({ length: task.contenders }, contend));
}

async function main({ spec, task }: { spec: LockSpec; task: Task }): Promise<void> {
  await using client = await openLock(spec);
  if (task.do === "count") {
    await count(client.lock, task);
    say("done");
    return;
  }
  const lease = await client.lock.acquire(task.name);
  say(`held ${lease.fencingToken}`);
  if (task.do === "hold") { for await (const _ of Deno.stdin.readable); }
}

if (import.meta.main) await main(JSON.parse(Deno.args[0]!));
