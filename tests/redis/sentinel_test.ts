/**
 * Redis Sentinel: the primary is killed while a lock is held and waiters are queued.
 */
import { assert, assertEquals } from "@std/assert";
import { Redis } from "ioredis";
import { createSentinel } from "redis";
import { ioredis } from "../../redis/clients/ioredis.ts";
import { nodeRedis } from "../../redis/clients/node_redis.ts";
import { RedisLock } from "../../redis/mod.ts";
import { Redlock } from "../../redlock/mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { noteOpen } from "../../testing/redis/client_timers.ts";
import { endIoredis, openSentinelClient } from "../../testing/redis/clients.ts";
import { keysLeft } from "../../testing/redis/residue.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import type { RedisServer } from "../../testing/servers/redis.ts";
import {
  PRIMARY_NAME,
  type RedisSentinels,
  redisSentinelSkip,
  startRedisSentinels,
} from "../../testing/servers/redis_sentinel.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { warmUp } from "../../testing/redis/memory_check.ts";
import { CONDITION_BOUND_MS, LONG_TTL_MS, scaled } from "../../testing/time.ts";

const skip = await redisSentinelSkip();
const suffix = skip === undefined ? "" : ` [skipped: ${skip}]`;

/** Calls go on trying for longer than a failover takes. */
const OPTIONS = { unavailableAfterMs: CONDITION_BOUND_MS };

/** Starts a call that waits. Resolves when the server has queued it. */
async function queue(lock: RedisLock, name: string) {
  let waits = false;
  const lease = lock.acquire(name, { onWait: () => void (waits = true) });
  lease.catch(() => {});
  await waitUntil("the waiter waits", () => waits);
  return { lease };
}

/** The inboxes that have a subscriber at a server. */
async function inboxes({ command }: RedisServer): Promise<number> {
  return (await command("PUBSUB", "CHANNELS", "holdfast:*") as string[]).length;
}

/** The connections to a server, without those of its sentinels and of the observer. */
async function foreignClients({ command }: RedisServer): Promise<string[]> {
  const lines = String(await command("CLIENT", "LIST")).trim().split("\n");
  return lines.filter((line) => !/ name=sentinel-| cmd=client/.test(line));
}

const CLIENTS = ["node-redis-sentinel", "ioredis-sentinel"] as const;

/** Three locks of one client package on the primary: one holds, two wait. Called before the primary is killed. */
async function beforeFailover(name: typeof CLIENTS[number], { sentinels }: RedisSentinels) {
  const opened = await Promise.all([1, 2, 3].map(() => openSentinelClient(name, sentinels)));
  const [a, b, c] = opened.map(({ client }) => new RedisLock(client, OPTIONS));
  const first = await a!.acquire(name);
  const second = await queue(b!, name);
  const third = await queue(c!, name);
  return { name, opened, locks: [a!, b!, c!] as const, first, second, third };
}

type Scene = Awaited<ReturnType<typeof beforeFailover>>;

/** The primary is down. Returns what the rest of the scene does after the failover. */
async function duringFailover(
  { name, opened, locks, first, second, third }: Scene,
  epochs: number[],
) {
  const during = locks[0].acquire(`${name} during`);
  during.catch(() => {});
  for (const { client } of opened) {
    await waitUntil("the client says why", () => client.connectionError !== undefined);
  }
  return async () => {
    await (await within("the call that began during the failover is granted", during)).release();
    await first.release(); // it may have been lost with the primary
    // A waiter that has not subscribed at the new primary yet is skipped.
    const waiters = [second.lease, third.lease];
    const next = await within("one is granted", Promise.race(waiters), CONDITION_BOUND_MS);
    assert(next.fencingToken > first.fencingToken);
    assertEquals(await next.release(), true);
    const both = await within("both are granted", Promise.all(waiters), CONDITION_BOUND_MS);
    const last = both.find((lease) => lease !== next)!;
    assert(last.fencingToken > next.fencingToken);
    opened.forEach(({ client }, i) => assert(client.epoch !== epochs[i], "the epoch changed"));
    opened.forEach(({ client }) => assertEquals(client.connectionError, undefined));
    return last;
  };
}

Deno.test({
  name: `${
    CLIENTS.join(" and ")
  }: RedisLock works on after a failover, and grants its waiters the lock${suffix}`,
  ignore: skip !== undefined,
  async fn() {
    await using servers = await startRedisSentinels();
    const { primary, replica } = servers;
    const scenes = await Promise.all(CLIENTS.map((name) => beforeFailover(name, servers)));
    const waiters = 2 * CLIENTS.length;
    await waitUntil("all listen at the primary", async () => await inboxes(primary) === waiters);
    await primary.command("WAIT", 1, 10_000); // the replica has the queue
    const epochs = scenes.map(({ opened }) => opened.map(({ client }) => client.epoch));

    await primary.kill("SIGKILL");
    const later = await Promise.all(scenes.map((scene, i) => duringFailover(scene, epochs[i]!)));
    await servers.promoted(replica);
    const leases = await Promise.all(later.map((go) => go()));

    await waitUntil(
      "all listen at the new primary",
      async () => await inboxes(replica) === waiters,
    );
    for (const [i, { name, locks }] of scenes.entries()) {
      const fourth = await queue(locks[1], name);
      assertEquals(await leases[i]!.release(), true);
      await (await within("the new waiter is granted", fourth.lease)).release();
    }

    for (const { locks } of scenes) for (const lock of locks) await lock[Symbol.asyncDispose]();
    await Promise.all(scenes.flatMap(({ opened }) => opened.map(({ close }) => close())));
    await waitUntil("no connection is left", async () => {
      return (await foreignClients(replica)).length === 0;
    });
    await waitUntil("no key is left", async () => (await keysLeft(replica.command)).length === 0);
  },
});

Deno.test({
  name:
    `ioredis-sentinel: a disposed RedisLock does not search for a primary that is gone${suffix}`,
  ignore: skip !== undefined,
  async fn() {
    await using servers = await startRedisSentinels();
    const { primary, sentinels } = servers;
    const { client, close } = await openSentinelClient("ioredis-sentinel", sentinels);
    const lock = new RedisLock(client, { disposeTimeoutMs: 200 });
    await lock.acquire("n");
    await queue(lock, "n");
    await waitUntil("the waiter listens", async () => await inboxes(primary) === 1);
    await servers.killAll();
    await waitUntil("the client knows of the outage", () => client.connectionError !== undefined);
    // No condition: it tries to subscribe again, 100 ms after the end of its connection.
    await pause(scaled(300));
    await lock[Symbol.asyncDispose]();
    await close(); // a search that goes on would leave a timer
  },
});

/** What a failover that is announced does to an ioredis client: the detector calls `disconnect()`. */
interface Detected {
  readonly connector: { failoverDetector: { disconnect(): void } | null };
}

/** An ioredis client that listens to sentinels, and a failover that is announced while it connects. */
function openDetecting({ sentinels }: RedisSentinels) {
  const client = new Redis({
    name: PRIMARY_NAME,
    sentinels: [...sentinels],
    failoverDetector: true,
  });
  client.on("error", () => {});
  const close = noteOpen(() => endIoredis(client));
  const { connector } = client as unknown as Detected;
  const announceFailover = async () => {
    await waitUntil("the client listens to sentinels", () => connector.failoverDetector !== null);
    const hasEnded = new Promise((resolve) => client.once("end", resolve));
    client.once("connecting", () => connector.failoverDetector!.disconnect());
    client.disconnect(true);
    await within("ioredis takes itself for closed", hasEnded);
  };
  return { client, close, announceFailover };
}

Deno.test({
  name:
    `ioredis-sentinel: RedisLock works on when a failover is announced while the client connects${suffix}`,
  ignore: skip !== undefined,
  async fn() {
    await using servers = await startRedisSentinels();
    const { client, close, announceFailover } = openDetecting(servers);
    await using lock = new RedisLock(ioredis(client), OPTIONS);
    await (await lock.acquire("before")).release();
    await announceFailover();
    await (await within("it is connected again", lock.acquire("after"))).release();
    await lock[Symbol.asyncDispose]();
    await close();
    assertEquals(client.status, "end");
  },
});

Deno.test({
  name:
    `ioredis-sentinel: Redlock keeps its locks when a failover is announced while the client connects${suffix}`,
  ignore: skip !== undefined,
  async fn() {
    await using servers = await startRedisSentinels();
    const { client, close, announceFailover } = openDetecting(servers);
    const redlock = new Redlock([client]);
    const held = await redlock.acquire(["held"], LONG_TTL_MS);
    await announceFailover();
    await within("it is connected again", client.ping());
    // A manager that is closed gives its locks back after 0.25 s.
    await client.set("passing", "", "PX", scaled(1_000));
    await waitUntil("time has passed", async () => await client.exists("passing") === 0);
    assertEquals(await client.get("held"), held.value);
    await held.release();
    await redlock.quit();
    await close();
    assertEquals(client.status, "end");
  },
});

/** Sentinels, and a node-redis client that reaches the primary through a proxy. */
async function openProxied() {
  const stack = new AsyncDisposableStack();
  const servers = stack.use(await startRedisSentinels());
  const { primary } = servers;
  const proxy = stack.use(startProxy(primary));
  const sentinel = createSentinel({
    name: PRIMARY_NAME,
    sentinelRootNodes: [...servers.sentinels],
    nodeAddressMap: (address) =>
      address.endsWith(`:${primary.port}`) ? { host: proxy.hostname, port: proxy.port } : undefined,
  }).on("error", () => {});
  await sentinel.connect();
  stack.defer(noteOpen(() => sentinel.destroy()));
  return {
    primary,
    proxy,
    client: nodeRedis(sentinel),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

Deno.test({
  name: `node-redis-sentinel: Lease.release() returns true when its reply is lost${suffix}`,
  ignore: skip !== undefined,
  async fn() {
    await using redis = await openProxied();
    const { client, proxy } = redis;
    await using lock = new RedisLock(client, { ...OPTIONS, ttlMs: LONG_TTL_MS });
    await warmUp(lock, proxy);
    const lease = await lock.acquire("n");
    const { epoch } = client;
    proxy.onReply = () => {
      proxy.onReply = undefined;
      queueMicrotask(() => proxy.cutAll());
      return "drop";
    };
    assertEquals(await within("the release is answered", lease.release()), true);
    assert(client.epoch !== epoch);
  },
});

Deno.test({
  name: `node-redis-sentinel: no command waits for the reply to another one${suffix}`,
  ignore: skip !== undefined,
  async fn() {
    await using redis = await openProxied();
    const { client, proxy, primary } = redis;
    await client.send("SET", ["n", "0"], "n");
    const gate = Promise.withResolvers<void>();
    proxy.onReply = () => ({ until: gate.promise });
    const sent = [1, 2, 3].map(() => client.send("INCR", ["n"], "n"));
    await waitUntil("all are executed", async () => await primary.command("GET", "n") === "3");
    gate.resolve();
    assertEquals(await Promise.all(sent), [1, 2, 3]);
  },
});
