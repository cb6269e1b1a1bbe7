/**
 * `RedisLock.list()`: which keys it takes for locks, what it needs, and what it costs the server.
 */
import { assert, assertEquals, assertLess, assertRejects, assertThrows } from "@std/assert";
import { LockSetupError, LockUnavailableError } from "../../mod.ts";
import { type RedisClient, RedisLock, type RedisLockOptions } from "../../redis/mod.ts";
import { type Bystander, delayText, startBystander } from "../../testing/load/bystander.ts";
import { say } from "../../testing/processes/figures.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { redisClusterSkip, startRedisCluster } from "../../testing/servers/redis_cluster.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { LONG_TTL_MS, scaled } from "../../testing/time.ts";

const IS_SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
const FOREIGN_KEYS = IS_SOAK ? 1_000_000 : 20_000;
const COUNT = 1_000;
/** Whether this machine does nothing else. On a busy one the server waits for its turn, too. */
const IS_QUIET = Deno.env.get("HOLDFAST_QUIET") === "1";
const PING_BOUND_MS = IS_QUIET ? 10 : 20;
const SCAN_BOUND_US = 5_000;
/** How many are watched before. */
const QUIET_PINGS = 50;

/** Makes keys `data:1`, `data:2`, … inside the server. */
const FILL = "for i = ARGV[1], ARGV[2] do redis.call('SET', 'data:' .. i, i) end";
const FILL_STEP = 10_000;

async function open(url: string, options: RedisLockOptions = {}) {
  const stack = new AsyncDisposableStack();
  const { client, close } = await openRedisClient("node-redis", url);
  stack.defer(close);
  const locks = stack.use(new RedisLock(client, { ttlMs: LONG_TTL_MS, ...options }));
  return { locks, client, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

/** The worst delay of so many PINGs. */
async function worstOf(bystander: Bystander, pings: number): Promise<number> {
  let [count, worstMs] = [0, 0];
  await waitUntil("the bystander has its answers", async () => {
    const delays = await bystander.delays();
    worstMs = Math.max(worstMs, delays.worstMs ?? 0); // none in so short a time
    return (count += delays.count) >= pings;
  });
  return worstMs;
}

async function collect(names: AsyncIterable<string>): Promise<string[]> {
  return (await Array.fromAsync(names)).toSorted();
}

Deno.test("RedisLock.list() names locks only, those of other libraries too, and no other keys", async () => {
  await using server = await startRedis();
  await using one = await open(server.url, { keyPrefix: "h" }); // our own keys begin with it, too
  await using _lease = await one.locks.acquire("a");
  await server.command("SET", "hplain", "token", "NX", "PX", LONG_TTL_MS);
  for (const key of ["h", "other", "xh"]) await server.command("SET", key, "data");
  await server.command("RPUSH", "hlist", "data");
  assertEquals(await collect(one.locks.list()), ["a", "plain"]);
  assertEquals((await server.command("KEYS", "holdfast:*") as string[]).length > 0, true);
});

Deno.test("RedisLock.list() needs +scan and nothing else does; without a prefix it is not supported", async () => {
  await using server = await startRedis();
  await server.command("ACL", "SETUSER", "u", "on", ">secret", "~*", "&*", "+@all", "-scan");
  const url = `redis://u:secret@${server.hostname}:${server.port}`;
  await using refused = await open(url);
  await using _lease = await refused.locks.acquire("n");
  const error = await assertRejects(() => collect(refused.locks.list()), LockSetupError);
  assert(/\+scan/.test(error.message), error.message);
  await server.command("ACL", "SETUSER", "u", "+scan");
  assertEquals(await collect(refused.locks.list()), ["n"]);
  await using bare = await open(server.url, { keyPrefix: "" });
  assertEquals(bare.locks.capabilities.list, false);
  const unsupported = assertThrows(() => bare.locks.list(), DOMException);
  assertEquals(unsupported.name, "NotSupportedError");
  assert(/keyPrefix/.test(unsupported.message));
});

Deno.test("RedisLock.list() repeats a SCAN that fails until Redis is unavailable, and sends none after its disposal", async () => {
  const parts: (readonly [cursor: string, keys: string[]] | null)[] = [];
  let scans = 0;
  const client: RedisClient = {
    send() {
      scans++;
      const part = parts.shift() ?? null;
      return part === null ? Promise.reject(new Error("lost")) : Promise.resolve(part);
    },
    epoch: 1,
    cluster: false,
  };
  const locks = new RedisLock(client, { unavailableAfterMs: scaled(200), disposeTimeoutMs: 0 });
  parts.push(null, ["5", ["lock:a"]], ["0", ["lock:b"]]);
  assertEquals([await collect(locks.list()), scans], [["a", "b"], 3]);
  await assertRejects(() => collect(locks.list()), LockUnavailableError);
  parts.push(["5", ["lock:a"]]);
  const names = locks.list()[Symbol.asyncIterator]();
  assertEquals((await names.next()).value, "a");
  const before = scans;
  await locks[Symbol.asyncDispose]();
  await assertRejects(() => names.next(), DOMException, "disposed");
  assertEquals(scans, before);
});

Deno.test("RedisLock.list() begins again when the client has connected anew, as a cursor counts on one server only", async () => {
  const cursors: string[] = [];
  let onScan = (_count: number) => {};
  const client = {
    send(_command: string, [cursor]: string[]) {
      cursors.push(cursor!);
      onScan(cursors.length);
      const isFirst = cursor === "0";
      return Promise.resolve(isFirst ? ["7", ["lock:a"]] : ["0", ["lock:b"]]);
    },
    epoch: 1,
    cluster: false,
  };
  await using locks = new RedisLock(client);
  const list = async (on: typeof onScan) => {
    onScan = on;
    const names = await collect(locks.list());
    return [cursors.splice(0).join(), names.join()];
  };
  assertEquals(await list(() => {}), ["0,7", "a,b"]);
  const reconnectAt = (at: number) => (count: number) =>
    void (client.epoch += count === at ? 1 : 0);
  assertEquals(await list(reconnectAt(1)), ["0,0,7", "a,a,b"]);
  assertEquals(await list(reconnectAt(2)), ["0,7,0,7", "a,a,b,b"], "the last part is another's");
  const names = locks.list()[Symbol.asyncIterator]();
  await names.next();
  client.epoch++; // while the caller uses the name
  await names.next();
  assertEquals(cursors.splice(0).join(), "0,0");
  await names.return!();
  const restless = await list(() => void client.epoch++);
  assertEquals(restless, ["0,0,0,0,7", "a,a,a,a,b"], "a client that cannot know it");
});

const skip = await redisClusterSkip();

Deno.test({
  name: "RedisLock.list() asks every primary of a cluster, and its client must name them" +
    (skip === undefined ? "" : ` [skipped: ${skip}]`),
  ignore: skip !== undefined,
  async fn() {
    await using cluster = await startRedisCluster();
    for (const name of ["node-redis-cluster", "ioredis-cluster"] as const) {
      const { client, close } = await openRedisClient(name, cluster.url);
      {
        const keyPrefix = `${name}:`;
        await using locks = new RedisLock(client, { keyPrefix, ttlMs: LONG_TTL_MS });
        const names = Array.from({ length: 30 }, (_, i) => `n${10 + i}`);
        const leases = await Promise.all(names.map((name) => locks.acquire(name)));
        assertEquals(await collect(locks.list()), names);
        const own = Object.create(client, { primaries: { value: undefined } });
        await using other = new RedisLock(own, { keyPrefix });
        assertEquals(other.capabilities.list, false);
        assertThrows(() => other.list(), DOMException);
        for (const lease of leases) await lease.release();
      }
      await close();
    }
  },
});

/** Fills a server with foreign keys, and one lock. */
async function manyKeys() {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startRedis());
  for (let i = 1; i <= FOREIGN_KEYS; i += FILL_STEP) {
    await server.command("EVAL", FILL, 0, i, Math.min(i + FILL_STEP - 1, FOREIGN_KEYS));
  }
  const { locks } = stack.use(await open(server.url));
  stack.use(await locks.acquire("n"));
  await server.command("CONFIG", "RESETSTAT");
  const scans = async () => {
    const info = String(await server.command("INFO", "commandstats"));
    const [, calls, us] = /cmdstat_scan:calls=(\d+),usec=(\d+)/.exec(info)!;
    return { calls: Number(calls), perCallUs: Math.round(Number(us) / Number(calls)) };
  };
  const owned = stack.move();
  return { url: server.url, locks, scans, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

Deno.test("RedisLock.list() finds a lock among many foreign keys, in steps of a thousand", async () => {
  await using keys = await manyKeys();
  assertEquals(await collect(keys.locks.list()), ["n"]);
  assertLess((await keys.scans()).calls, 1.5 * FOREIGN_KEYS / COUNT + 5);
});

Deno.test({
  name: "RedisLock.list() does not hold up a bystander" + (IS_SOAK ? "" : " [skipped: soak only]"),
  ignore: !IS_SOAK,
  async fn() {
    await using keys = await manyKeys();
    await using bystander = await startBystander(keys.url);
    const quietMs = await worstOf(bystander, QUIET_PINGS); // what the machine itself takes
    const startMs = performance.now();
    assertEquals(await collect(keys.locks.list()), ["n"]);
    const tookMs = performance.now() - startMs;
    const delays = await bystander.delays();
    const { calls, perCallUs } = await keys.scans();
    say(
      `list() among ${FOREIGN_KEYS} keys: ${Math.round(tookMs)} ms, ${calls} × SCAN of ` +
        `${perCallUs} µs, ${delayText(delays)}; without it at most ${quietMs.toFixed(1)} ms`,
    );
    assertLess(perCallUs, scaled(SCAN_BOUND_US));
    const busyMs = IS_QUIET ? 0 : Math.max(scaled(PING_BOUND_MS), 10 * quietMs);
    assertLess(delays.worstMs, Math.max(PING_BOUND_MS, busyMs));
  },
});
