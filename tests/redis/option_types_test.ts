/**
 * The options compile as callers write them, with `exactOptionalPropertyTypes` on.
 */
import { assertEquals } from "@std/assert";
import type { AttachableLock, DistributedLock } from "../../mod.ts";
import { RedisLock, type RedisLockOptions } from "../../redis/mod.ts";
import { play } from "../../testing/redis/race_stage.ts";

/** Options that a program has read from somewhere: each may be missing. */
interface Settings {
  readonly signal?: AbortSignal | undefined;
  readonly ttlMs?: number | undefined;
  readonly ownerId?: string | undefined;
  readonly label?: string | undefined;
}

async function everyCall(lock: AttachableLock & DistributedLock, settings: Settings) {
  const { signal, ttlMs, ownerId } = settings;
  const lease = { autoRenew: undefined, maxHoldMs: undefined, onWait: undefined };
  const options = { ...lease, signal, ttlMs, ownerId, outlivesDisposal: undefined };
  await (await lock.acquire("n", options)).release();
  await (await lock.tryAcquire("n", options))?.release();
  await lock.attach("n", "job-7", { ...lease, signal, ttlMs, outlivesDisposal: undefined });
  const more = { mode: undefined, ifAvailable: undefined, steal: undefined };
  return await lock.request("n", { ...options, ...more }, (lease) => lease?.ownerId);
}

Deno.test("RedisLock.request() takes the options of acquire(), and every option may be undefined", () =>
  play(async ({ lock, server }) => {
    const ownerId = await everyCall(lock, { ttlMs: 30_000, ownerId: "job-7" });
    assertEquals(ownerId, "job-7");
    await lock.request("n", { ttlMs: 300_000 }, async () => {
      assertEquals(Number(await server.command("PTTL", "lock:n")) > 200_000, true);
    });
    await everyCall(lock, {});
  }));

Deno.test("RedisLock takes options that are undefined for those that are left out", async () => {
  const { label, ttlMs }: Settings = {};
  const options: RedisLockOptions = {
    ...{ label, ttlMs, keyPrefix: undefined, handoff: undefined, onWarning: undefined },
    ...{ unavailableAfterMs: undefined, commandTimeoutMs: undefined, disposeTimeoutMs: undefined },
  };
  const client = { send: () => Promise.reject(new Error("unused")), epoch: 0, cluster: false };
  await using _lock = new RedisLock(client, options);
});
