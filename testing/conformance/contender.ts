/**
 * The process behind {@linkcode startContender}.
 *
 * @module
 */
import { readFile, writeFile } from "node:fs/promises";
import { inputEnd, print, scriptArgument } from "../runtime/processes.ts";
import { type LockSpec, openLock } from "./open_lock.ts";
import type { Task } from "./process.ts";
import type { DistributedLock } from "../../mod.ts";

/** A read-modify-write that loses updates when two run at the same time. */
async function addOne(file: string): Promise<void> {
  const value = Number(await readFile(file, "utf8"));
  await Promise.resolve();
  await writeFile(file, String(value + 1));
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
    print("done\n");
    return;
  }
  let hasWaited = false;
  const onWait = () => {
    if (!hasWaited) print("waits\n");
    hasWaited = true;
  };
  const mode = task.do === "hold" ? task.mode : undefined;
  const lease = await client.lock.acquire(task.name, { mode, onWait });
  print(`held ${lease.fencingToken}\n`);
  if (task.do === "hold") await inputEnd();
}

if (import.meta.main) await main(scriptArgument());
