/**
 * Users that lose a right while they hold or wait: a refusal is an error of setup, at the first call that
 * meets it.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { LockSetupError } from "../../mod.ts";
import { RedisLock, type RedisLockOptions } from "../../redis/mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { gated } from "../../testing/redis/gated_client.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { LONG_TTL_MS } from "../../testing/time.ts";

const WAITERS = 100;
const AT_ONCE_MS = 30_000;

/** Opens locks as the user `u`, who has all rights. */
async function openAsUser(server: RedisServer, options: RedisLockOptions = {}) {
  await rights(server, "reset", "on", ">secret", "~*", "&*", "+@all");
  const url = `redis://u:secret@${server.hostname}:${server.port}`;
  const { client, close } = await openRedisClient("node-redis", url);
  const { client: seen, gates } = gated(client);
  const locks = new RedisLock(seen, options);
  return {
    locks,
    gates,
    async [Symbol.asyncDispose]() {
      await locks[Symbol.asyncDispose]();
      await close();
    },
  };
}

async function rights(server: RedisServer, ...rules: string[]): Promise<void> {
  await server.command("ACL", "SETUSER", "u", ...rules);
}

async function refused(call: () => Promise<unknown>): Promise<string> {
  const error = await within("it rejects", assertRejects(call, LockSetupError));
  assertEquals(error.lockName, "n");
  assert(error.message.includes("(NOPERM)"), error.message);
  assert(String(error.cause).includes("NOPERM"), String(error.cause));
  return error.message;
}

Deno.test("RedisLock.release() rejects with a LockSetupError when the user has lost the right, and the lock stays held until its TTL ends", async () => {
  await using server = await startRedis();
  await using user = await openAsUser(server, { ttlMs: LONG_TTL_MS });
  const { locks } = user;
  const [lease, other] = [await locks.acquire("n"), await locks.acquire("m")];
  await rights(server, "-evalsha", "-eval");
  const message = await refused(() => lease.release());
  assert(/^Cannot release lock "n": .*TTL/.test(message), message);
  await refused(() => lease.release());
  await lease[Symbol.asyncDispose]();
  assert(Number(await server.command("PTTL", "lock:n")) > 0);
  await rights(server, "+evalsha", "+eval");
  assertEquals(await other.release(), true);
  await server.command("PEXPIRE", "lock:n", 1); // its TTL is long: a stalled machine must not outlive it
  await using next = await within("its TTL ends", locks.acquire("n"));
  next.throwIfLost();
});

Deno.test("RedisLock.request() rejects with a LockSetupError when the release is refused, but the callback's own error wins", async () => {
  await using server = await startRedis();
  await using user = await openAsUser(server, { ttlMs: LONG_TTL_MS });
  const loseRight = () => rights(server, "-evalsha", "-eval");
  await refused(() => user.locks.request("n", loseRight));
  await rights(server, "+evalsha", "+eval");
  await server.command("PEXPIRE", "lock:n", 1); // stands for the end of its TTL
  const error = new Error("of the callback");
  const rejected = await assertRejects(() =>
    user.locks.request("n", () => loseRight().then(() => Promise.reject(error)))
  );
  assertEquals(rejected, error);
});

Deno.test("RedisLock rejects all waiters of a lock at once when one of them is refused", async () => {
  await using server = await startRedis();
  await using user = await openAsUser(server, { ttlMs: LONG_TTL_MS });
  const { client, close } = await openRedisClient("node-redis", server.url);
  {
    await using holders = new RedisLock(client, { ttlMs: LONG_TTL_MS });
    await using _lease = await holders.acquire("n");
    const waiters = Array.from({ length: WAITERS }, () => user.locks.acquire("n"));
    for (const waiter of waiters) waiter.catch(() => {});
    await waitUntil("all wait", async () => (await holders.query("n")).waiterCount === WAITERS);
    await rights(server, "-evalsha", "-eval");
    await refused(() => user.locks.acquire("n"));
    // Without the report each one asks only half a second after the one before it: 50 s for all.
    const startMs = performance.now();
    for (const waiter of waiters) await refused(() => waiter);
    const tookMs = performance.now() - startMs;
    assert(tookMs < AT_ONCE_MS, `${tookMs} ms`);
    await rights(server, "+evalsha", "+eval");
  }
  await close();
});

Deno.test("RedisLock does not repeat a clean-up that Redis refuses", async () => {
  await using server = await startRedis();
  await using user = await openAsUser(server, { ttlMs: LONG_TTL_MS });
  const { client, close } = await openRedisClient("node-redis", server.url);
  {
    await using holders = new RedisLock(client, { ttlMs: LONG_TTL_MS });
    await using _lease = await holders.acquire("n");
    const controller = new AbortController();
    const waiting = user.locks.acquire("n", { signal: controller.signal });
    waiting.catch(() => {});
    await waitUntil("it waits", async () => (await holders.query("n")).waiterCount === 1);
    await rights(server, "-evalsha", "-eval");
    controller.abort();
    await assertRejects(() => waiting);
    await user.locks[Symbol.asyncDispose](); // waits for the clean-up, and for repetitions
    const leaves = user.gates.sent.filter(({ script }) => script === "leave");
    assertEquals(leaves.length, 1);
    await rights(server, "+evalsha", "+eval");
  }
  await close();
});
