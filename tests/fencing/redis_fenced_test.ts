import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { createHash } from "node:crypto";
import { Redis } from "ioredis";
import { FENCED } from "../../fencing/scripts.ts";
import { fencedRedis, type FencedRedisOptions, StaleTokenError } from "../../fencing/mod.ts";
import { ioredis } from "../../redis/clients/ioredis.ts";
import { type RedisClient, RedisLock } from "../../redis/mod.ts";
import { readScripts, sourceOf } from "../../tools/lua_source.ts";
import type { RedisClientName } from "../../testing/conformance/open_lock.ts";
import { noteOpen } from "../../testing/redis/client_timers.ts";
import { endIoredis, openRedisClient } from "../../testing/redis/clients.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { redisClusterSkip, startRedisCluster } from "../../testing/servers/redis_cluster.ts";
import { LONG_TTL_MS } from "../../testing/time.ts";

const CLIENTS: RedisClientName[] = ["node-redis", "ioredis", "deno-redis-like"];
const CLUSTER_CLIENTS: RedisClientName[] = ["node-redis-cluster", "ioredis-cluster"];
const LAST = 2n ** 63n - 1n;

/** Starts a server and connects a client. */
async function open(clientName: RedisClientName = "node-redis") {
  await using stack = new AsyncDisposableStack();
  const redis = stack.use(await startRedis());
  const { client, close } = await openRedisClient(clientName, redis.url);
  stack.defer(close);
  const owned = stack.move();
  const { command } = redis;
  return {
    redis,
    command,
    client,
    fenced: fencedRedis(client),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function isStale(run: Promise<unknown>): Promise<boolean> {
  const error = await run.then(() => null, (error) => error);
  if (error !== null && !(error instanceof StaleTokenError)) throw error;
  return error !== null;
}

Deno.test("FencedRedis takes a write for done when the client returns integers as strings, and no unknown reply for stale", async () => {
  await using redis = await startRedis();
  const client = new Redis(redis.url, { stringNumbers: true });
  const close = noteOpen(() => endIoredis(client));
  const fenced = fencedRedis(ioredis(client));
  assertEquals(await fenced.run("a", 7n, ["INCRBY", "paid", "100"]), "100");
  assertEquals([await fenced.raise("a", 8n), await fenced.check("a", 8n)], [true, true]);
  assertEquals([await fenced.raise("a", 7n), await fenced.check("a", 7n)], [false, false]);
  assert(await isStale(fenced.run("a", 7n, ["INCRBY", "paid", "100"])));
  assertEquals(await redis.command("GET", "paid"), "100");
  await close();
  for (const reply of [[], [null], ["what"], null, "OK", [2]]) {
    const odd = fencedRedis({ ...ioredis(client), send: () => Promise.resolve(reply) });
    const error = await assertRejects(() => odd.run("a", 9n, ["PING"]), Error, "Unexpected reply");
    assert(!(error instanceof StaleTokenError));
  }
});

for (const clientName of CLIENTS) {
  Deno.test(`redis × ${clientName}: FencedRedis.run() rejects a stale token and accepts an equal one`, async () => {
    await using stage = await open(clientName);
    const { fenced, command } = stage;
    const set = (token: bigint, value: string) => fenced.run("a", token, ["SET", "a", value]);
    assertEquals(await set(5n, "first"), "OK");
    assertEquals(await set(5n, "second"), "OK"); // a lease may write twice
    const error = await assertRejects(() => set(4n, "late"), StaleTokenError, "token 4");
    assertEquals([error.resource, error.token], ["a", 4n]);
    assertEquals(await command("GET", "a"), "second");
    assertEquals(await fenced.run("b", 1n, ["INCR", "n"]), 1); // another resource
    assertEquals(await fenced.run("b", 2n, ["GET", "nothing"]), null);
    assertEquals(await fenced.run("b", 2n, ["MGET", "a", "nothing"]), ["second", null]);
    assertEquals(await fenced.raise("a", 6n), true);
    assertEquals([await fenced.raise("a", 5n), await fenced.raise("a", 6n)], [false, true]);
    assert(await isStale(set(5n, "late")));
    assertEquals(await command("GET", "fence:a"), "6");
    assertEquals(await command("TTL", "fence:a"), -1);
    assertEquals(await fencedRedis(stage.client, { keyPrefix: "x:" }).raise("a", 1n), true);
    assertEquals(await command("GET", "x:a"), "1");
  });
}

Deno.test("FencedRedis compares and does not raise in check(), and in run() with raise: false", async () => {
  await using stage = await open();
  const { fenced, client, command } = stage;
  const shared = fencedRedis(client, { raise: false });
  const set = (token: bigint, value: string) => shared.run("a", token, ["SET", "a", value]);
  assertEquals(await set(7n, "of reader B"), "OK");
  assertEquals(await set(6n, "of reader A"), "OK");
  assertEquals([await fenced.check("a", 6n), await shared.check("a", 0n)], [true, true]);
  assertEquals(await command("EXISTS", "fence:a"), 0);
  assert(await fenced.raise("a", 7n));
  assertEquals([await fenced.check("a", 6n), await fenced.check("a", 7n)], [false, true]);
  assert(await isStale(set(6n, "late")));
  assertEquals(await set(8n, "of reader C"), "OK");
  assertEquals([await command("GET", "a"), await command("GET", "fence:a")], ["of reader C", "7"]);
  assertEquals(await shared.raise("a", 9n), true); // raise() always raises
  assertEquals(await command("GET", "fence:a"), "9");
  await assertRejects(() => fenced.check("a", -1n), RangeError);
});

Deno.test("FencedRedis.raise() compares tokens exactly, from 0 to 63 bits", async () => {
  await using stage = await open();
  const { fenced } = stage;
  const rising = [0n, 1n, 9n, 10n, 99n, 100n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n];
  rising.push(2n ** 53n + 2n, 10n ** 18n - 1n, 10n ** 18n, LAST - 1n, LAST);
  for (const [i, token] of rising.entries()) {
    assert(await fenced.raise("r", token), `${token}`);
    for (const less of rising.slice(0, i)) {
      assertEquals(await fenced.raise("r", less), false, `${less} after ${token}`);
    }
    assert(await fenced.raise("r", token), `${token} once more`);
  }
  await assertRejects(() => fenced.raise("r", LAST + 1n), RangeError, "63 bits");
  await assertRejects(() => fenced.run("r", -1n, ["SET", "a", "x"]), RangeError);
  await assertRejects(() => fenced.raise("r", 1 as unknown as bigint), TypeError, "bigint");
});

Deno.test("FencedRedis.run() rejects an empty or too long command without sending anything", async () => {
  await using stage = await open();
  const { fenced, command } = stage;
  await assertRejects(() => fenced.run("r", 1n, []), TypeError, "command");
  const long = ["RPUSH", "list", ...Array.from({ length: 7_000 }, String)];
  await assertRejects(() => fenced.run("r", 1n, long), RangeError, "7000");
  assertEquals(await command("DBSIZE"), 0);
  assertEquals(await fenced.run("r", 1n, long.slice(0, 7_000)), 6_998);
});

Deno.test("fencedRedis() refuses unknown options and wrong types, which would be another fence", async () => {
  const client: RedisClient = {
    send: () => Promise.reject(new Error("sent")),
    epoch: 0,
    cluster: false,
  };
  const bad: unknown[] = [{ keyPrefix: null }, { keyprefix: "mine:" }, { keyPrefix: 7 }, {
    raise: 1,
  }, null];
  for (const options of bad) {
    assertThrows(() => fencedRedis(client, options as FencedRedisOptions), TypeError);
  }
  await assertRejects(
    () => fencedRedis(client).raise(undefined as unknown as string, 1n),
    TypeError,
    "the resource",
  );
});

Deno.test("FencedRedis.run() rejects when the command fails, and its token still counts", async () => {
  await using stage = await open();
  const { fenced, command } = stage;
  await command("SET", "text", "x");
  await assertRejects(() => fenced.run("r", 2n, ["LPUSH", "text", "y"]), Error, "WRONGTYPE");
  assertEquals(await fenced.raise("r", 1n), false);
});

Deno.test("FencedRedis.run() does not run the command when Redis has no memory for the token", async () => {
  await using stage = await open();
  const { fenced, command } = stage;
  await command("SET", "a", "kept");
  assert(await fenced.raise("r", 1n));
  await command("CONFIG", "SET", "maxmemory", "1");
  // DEL itself needs no memory: only the token does.
  await assertRejects(() => fenced.run("r", 2n, ["DEL", "a"]), Error, "OOM");
  assertEquals(await command("GET", "a"), "kept");
  assertEquals(await command("GET", "fence:r"), "1");
  assertEquals(await fenced.run("r", 1n, ["DEL", "a"]), 1, "an equal token is not written again");
});

Deno.test("FencedRedis.run() sends the script only when the server does not know it", async () => {
  await using stage = await open();
  const { fenced, command } = stage;
  const calls = async (name: string) => {
    const stats = String(await command("INFO", "commandstats"));
    return Number(new RegExp(`^cmdstat_${name}:calls=(\\d+)`, "m").exec(stats)?.[1] ?? 0);
  };
  for (const flushes of [1, 2]) {
    for (let i = 0; i < 3; i++) {
      assertEquals(await fenced.run("r", 1n, ["INCR", "n"]), 3 * flushes - 2 + i);
    }
    assertEquals(await calls("eval"), flushes);
    await command("SCRIPT", "FLUSH");
  }
});

/** Lets two writers write as fast as they can, one under even and one under odd rising tokens. */
async function race(
  stage: { command: RedisServer["command"] },
  writers: ReturnType<typeof fencedRedis>[],
) {
  const rounds = 300;
  const accepted = await Promise.all(writers.map(async (fenced, odd) => {
    let count = 0;
    for (let i = 0; i < rounds; i++) {
      const token = BigInt(2 * i + odd);
      if (!await isStale(fenced.run("r", token, ["RPUSH", "log", String(token)]))) count++;
    }
    return count;
  }));
  const log = (await stage.command("LRANGE", "log", 0, -1) as string[]).map(Number);
  assertEquals(
    log.length,
    accepted[0]! + accepted[1]!,
    "every accepted write is in the log, and no other",
  );
  assert(log.every((token, i) => i === 0 || log[i - 1]! < token), "tokens never became smaller");
  assertEquals(log.at(-1), 2 * rounds - 1);
}

Deno.test("FencedRedis.run() never writes under a smaller token after a greater one when writers race", async () => {
  await using stage = await open();
  const { client, close } = await openRedisClient("ioredis", stage.redis.url);
  await using _ = { [Symbol.asyncDispose]: close };
  await race(stage, [stage.fenced, fencedRedis(client)]);
});

Deno.test("FencedRedis.run() rejects the token of an expired lease after the next lease has written", async () => {
  await using stage = await open();
  const { client, fenced, command } = stage;
  await using locks = new RedisLock(client, { ttlMs: LONG_TTL_MS });
  const late = await locks.acquire("orders:42", { autoRenew: false });
  await command("DEL", "lock:orders:42"); // as if it had expired
  await using lease = await locks.acquire("orders:42");
  const write = (token: bigint, value: string) =>
    fenced.run("orders:42", token, ["SET", "orders:42", value]);
  assertEquals(await write(lease.fencingToken, "new"), "OK");
  await assertRejects(() => write(late.fencingToken, "old"), StaleTokenError);
  assertEquals(await command("GET", "orders:42"), "new");
});

const skip = await redisClusterSkip();

Deno.test({
  name: "FencedRedis.run() works on a cluster when the resource has the hash tag of the keys",
  ignore: skip !== undefined,
  async fn() {
    await using cluster = await startRedisCluster();
    for (const clientName of CLUSTER_CLIENTS) {
      const { client, close } = await openRedisClient(clientName, cluster.url);
      await using _ = { [Symbol.asyncDispose]: close };
      const fenced = fencedRedis(client);
      for (const tag of ["a", "b", "c", "d"]) { // slots of all three masters
        const key = `${clientName}:{${tag}}:value`;
        const run = (token: bigint, value: string) =>
          fenced.run(`${clientName}:{${tag}}`, token, ["SET", key, value], [key]);
        assertEquals(await run(2n, "new"), "OK");
        await assertRejects(() => run(1n, "old"), StaleTokenError);
        assertEquals(await (await cluster.masterOf(key)).command("GET", key), "new");
        const other = `${clientName}:{${tag}${tag}}`;
        await assertRejects(() => fenced.run(tag, 3n, ["SET", other, "x"], [other]), Error, "slot");
      }
    }
  },
});

Deno.test("fenced.lua is embedded as it is in its source file, and reads one literal key", () => {
  const [fenced] = readScripts("fencing/scripts");
  const code = sourceOf(fenced!);
  assertEquals(FENCED.source, code);
  assertEquals(FENCED.sha1, createHash("sha1").update(code).digest("hex"));
  // The script names one literal key. The caller lists the keys of the command.
  assertEquals([...new Set(code.match(/KEYS\[[^\]]*\]/g))], ["KEYS[1]"]);
  assertEquals(code.match(/\bKEYS\b/g)?.length, code.match(/KEYS\[1\]/g)?.length);
});
