/**
 * A program that prints how many bytes each of many calls under one owner id leaves behind, while the first one
 * has no answer. Runs with `--v8-flags=--expose-gc`.
 *
 * @module
 */
import { LockUnavailableError } from "../../mod.ts";
import { type RedisClient, RedisLock } from "../../redis/mod.ts";

const CALLS = 150;

const silent: RedisClient = {
  send: () => new Promise(() => {}),
  epoch: 1,
  cluster: false,
};
const lock = new RedisLock(silent, { unavailableAfterMs: 1 });

async function failOften(): Promise<void> {
  for (let i = 0; i < CALLS; i++) {
    await lock.acquire("n", { ownerId: "job-7" }).catch((error) => {
      if (!(error instanceof LockUnavailableError)) throw error;
    });
  }
}

function usedBytes(): number {
  (globalThis as unknown as { gc(): void }).gc();
  return Deno.memoryUsage().heapUsed;
}

await failOften();
const before = usedBytes();
await failOften();
const bytes = (usedBytes() - before) / CALLS;
Deno.stdout.writeSync(new TextEncoder().encode(String(bytes)));
Deno.exit();
