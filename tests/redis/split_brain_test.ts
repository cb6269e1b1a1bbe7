/**
 * A replica is promoted while the old primary still serves its side of a network that is split.
 */
import { assert, assertEquals } from "@std/assert";
import { LeaseLostError, LockUnavailableError } from "../../mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { scaled } from "../../testing/time.ts";

const TTL_MS = scaled(2_000);

async function open(stack: AsyncDisposableStack, { url }: RedisServer): Promise<RedisLock> {
  const { client, close } = await openRedisClient("ioredis", url);
  stack.defer(close);
  return stack.use(
    new RedisLock(client, { ttlMs: TTL_MS, unavailableAfterMs: 500, onWarning: () => {} }),
  );
}

Deno.test("RedisLock: a holder beside an old primary keeps its lease, and only its token is smaller", async () => {
  await using stack = new AsyncDisposableStack();
  const [old, promoted] = [stack.use(await startRedis()), stack.use(await startRedis())];
  const first = await (await open(stack, old)).acquire("n");
  await old.command("CONFIG", "SET", "repl-diskless-sync-delay", 0);
  await promoted.command("REPLICAOF", "127.0.0.1", old.port);
  await waitUntil("the lock is replicated", async () => {
    return await promoted.command("EXISTS", "lock:n") === 1;
  });
  await promoted.command("REPLICAOF", "NO", "ONE");
  const second = await (await open(stack, promoted)).acquire("n", { waitMs: 20 * TTL_MS });
  const endMs = performance.now() + TTL_MS;
  await waitUntil("both were renewed for a TTL", () => {
    for (const lease of [first, second]) assert(lease.isHeld);
    return performance.now() > endMs;
  });
  assert(first.fencingToken < second.fencingToken);
});

Deno.test("RedisLock: min-replicas-to-write ends the lease of a holder beside an old primary", async () => {
  await using stack = new AsyncDisposableStack();
  const old = stack.use(await startRedis());
  const locks = await open(stack, old);
  const lease = await locks.acquire("n");
  const { signal } = lease;
  await old.command("CONFIG", "SET", "min-replicas-to-write", "1");
  await waitUntil("the lease is lost", () => signal.aborted);
  assert(signal.reason instanceof LeaseLostError);
  assertEquals(signal.reason.reason, "unreachable");
  const refused = await locks.acquire("other").catch((error: unknown) => error);
  assert(refused instanceof LockUnavailableError, String(refused));
});
