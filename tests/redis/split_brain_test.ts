/**
 * A replica is promoted while the old primary still serves its side of a network that is split.
 */
import { assert, assertEquals } from "@std/assert";
import { LeaseLostError, LockUnavailableError } from "../../mod.ts";
import { RedisLock, type RedisLockOptions } from "../../redis/mod.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS, KEPT_TTL_MS, scaled } from "../../testing/time.ts";

async function open(
  stack: AsyncDisposableStack,
  { url }: RedisServer,
  options: RedisLockOptions,
): Promise<RedisLock> {
  const { client, close } = await openRedisClient("ioredis", url);
  stack.defer(close);
  return stack.use(new RedisLock(client, { ...options, onWarning: () => {} }));
}

/** Waits until a renewal has prolonged the lock. */
async function prolonged({ command }: RedisServer): Promise<void> {
  let leftMs = Infinity;
  await waitUntil("the lock is prolonged", async () => {
    const beforeMs = leftMs;
    leftMs = Number(await command("PTTL", "lock:n"));
    return leftMs > beforeMs;
  });
}

Deno.test("RedisLock: a holder beside an old primary keeps its lease, and only its token is smaller", async () => {
  await using stack = new AsyncDisposableStack();
  const [old, promoted] = [stack.use(await startRedis()), stack.use(await startRedis())];
  const options = { ttlMs: KEPT_TTL_MS, unavailableAfterMs: CONDITION_BOUND_MS };
  const first = await (await open(stack, old, options)).acquire("n");
  await old.command("CONFIG", "SET", "repl-diskless-sync-delay", 0);
  await promoted.command("REPLICAOF", "127.0.0.1", old.port);
  await waitUntil("the lock is replicated", async () => {
    return await promoted.command("EXISTS", "lock:n") === 1;
  });
  await promoted.command("REPLICAOF", "NO", "ONE");
  await promoted.command("PEXPIRE", "lock:n", 1); // stands for the end of its TTL, as no renewal comes here
  const second = await (await open(stack, promoted, options)).acquire("n");
  await Promise.all([prolonged(old), prolonged(promoted)]);
  for (const lease of [first, second]) assert(lease.isHeld);
  assert(first.fencingToken < second.fencingToken);
});

Deno.test("RedisLock: min-replicas-to-write ends the lease of a holder beside an old primary", async () => {
  await using stack = new AsyncDisposableStack();
  const old = stack.use(await startRedis());
  const locks = await open(stack, old, { ttlMs: scaled(2_000), unavailableAfterMs: scaled(1_000) });
  const lease = await locks.acquire("n");
  const { signal } = lease;
  await old.command("CONFIG", "SET", "min-replicas-to-write", "1");
  lease.renew().catch(() => {}); // now: it may expire while this machine stalls
  await waitUntil("the lease is lost", () => signal.aborted);
  assert(signal.reason instanceof LeaseLostError);
  assertEquals(signal.reason.reason, "unreachable");
  const refused = await locks.acquire("other").catch((error: unknown) => error);
  assert(refused instanceof LockUnavailableError, String(refused));
});
