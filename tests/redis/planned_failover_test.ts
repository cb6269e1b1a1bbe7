/**
 * Redis Sentinel: a failover that an administrator asks for, while the old primary works.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { Redis } from "ioredis";
import { ioredis } from "../../redis/clients/ioredis.ts";
import { type RedisClient, RedisLock } from "../../redis/mod.ts";
import { openRedisClient, openSentinelClient } from "../../testing/redis/clients.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import {
  PRIMARY_NAME,
  redisSentinelSkip,
  startRedisSentinels,
} from "../../testing/servers/redis_sentinel.ts";
import { connectResp } from "../../testing/servers/resp.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS, KEPT_TTL_MS } from "../../testing/time.ts";

const skip = await redisSentinelSkip();
const suffix = skip === undefined ? "" : ` [skipped: ${skip}]`;

/** Whether commands of a client reach this server. */
async function isAt(client: RedisClient, { port }: RedisServer): Promise<boolean> {
  const info = await client.send("INFO", ["server"], "").catch(() => "");
  return String(info).includes(`\r\ntcp_port:${port}\r\n`);
}

async function isPrimary({ command }: RedisServer): Promise<boolean> {
  // A sentinel closes all connections of a server whose role it changes.
  const info = () => command("INFO", "replication");
  return String(await info().catch(info)).includes("\r\nrole:master\r\n");
}

Deno.test({
  name: `RedisLock follows a planned failover before the old primary is demoted${suffix}`,
  ignore: skip !== undefined,
  async fn() {
    await using servers = await startRedisSentinels();
    const { primary, replica, sentinels } = servers;
    for (const name of ["ioredis-sentinel", "node-redis-sentinel"] as const) {
      const { client, close } = await openSentinelClient(name, sentinels);
      {
        await using lock = new RedisLock(client, { unavailableAfterMs: CONDITION_BOUND_MS });
        const [from, to] = await isPrimary(primary) ? [primary, replica] : [replica, primary];
        await waitUntil("the client is there", () => isAt(client, from));
        // Asked again and again: it may be too early, and a sentinel that a stall stops gives up.
        await waitUntil("the sentinels fail over", async () => {
          using sentinel = await connectResp(`redis://${sentinels[0]!.host}:${sentinels[0]!.port}`);
          const ask = (...args: string[]) => sentinel.command("SENTINEL", ...args, PRIMARY_NAME);
          const [, port] = await ask("GET-MASTER-ADDR-BY-NAME") as string[];
          if (Number(port) === to.port) return true;
          await ask("FAILOVER").catch(() => {}); // refused while one is under way
          return false;
        });
        await servers.promoted(to);
        await waitUntil("the client has moved", () => isAt(client, to));
        assertEquals(await isPrimary(from), true, `${name}: the old primary still takes writes`);
        await (await lock.acquire("n")).release();
        await waitUntil("the old primary is demoted", async () => !await isPrimary(from));
      }
      await close();
    }
  },
});

Deno.test("RedisLock: a lock whose release the old primary executed after a promotion stays held until its TTL", async () => {
  await using stack = new AsyncDisposableStack();
  const old = stack.use(await startRedis());
  const promoted = stack.use(await startRedis());
  const [holder, later] = await Promise.all([old, promoted].map(async ({ url }) => {
    const { client, close } = await openRedisClient("node-redis", url);
    stack.defer(close);
    return stack.use(new RedisLock(client, { ttlMs: KEPT_TTL_MS }));
  }));
  const lease = await holder!.acquire("n");
  await old.command("CONFIG", "SET", "repl-diskless-sync-delay", 0);
  await promoted.command("REPLICAOF", "127.0.0.1", old.port);
  await waitUntil("the lock is replicated", async () => {
    return await promoted.command("EXISTS", "lock:n") === 1;
  });
  await promoted.command("REPLICAOF", "NO", "ONE");
  assertEquals(await lease.release(), true);
  assert(String(await promoted.command("GET", "lock:n")).startsWith(lease.ownerId));
  assertEquals(await later!.tryAcquire("n"), null);
  await old.command("REPLICAOF", "127.0.0.1", promoted.port);
  const next = await later!.acquire("n", { waitMs: CONDITION_BOUND_MS });
  assert(next.fencingToken > lease.fencingToken);
});

Deno.test("RedisLock warns of an ioredis client that is not told of failovers", async () => {
  const warnings: string[] = [];
  const onWarning = (text: string) => void warnings.push(text);
  for (const failoverDetector of [false, true]) {
    const sentinels = [{ host: "127.0.0.1", port: 1 }];
    const client = new Redis({ name: "p", sentinels, failoverDetector, lazyConnect: true });
    await using _lock = new RedisLock(ioredis(client), { onWarning });
  }
  const single = new Redis({ lazyConnect: true });
  await using _lock = new RedisLock(ioredis(single), { onWarning });
  assertEquals(warnings.length, 1);
  assertMatch(warnings[0]!, /'failoverDetector: true'$/);
});
