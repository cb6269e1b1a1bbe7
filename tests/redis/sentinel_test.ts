/**
 * Redis Sentinel: the primary is killed while a lock is held and waiters are queued.
 */
import { assert, assertEquals } from "@std/assert";
import { createSentinel } from "redis";
import { nodeRedis } from "../../redis/clients/node_redis.ts";
import { RedisLock } from "../../redis/mod.ts";
import { within } from "../../testing/conformance/wait.ts";
import { openSentinelClient } from "../../testing/redis/clients.ts";
import { keysLeft } from "../../testing/redis/residue.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import type { RedisServer } from "../../testing/servers/redis.ts";
import {
  PRIMARY_NAME,
  redisSentinelSkip,
  startRedisSentinels,
} from "../../testing/servers/redis_sentinel.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";

const skip = await redisSentinelSkip();
const suffix = skip === undefined ? "" : ` [skipped: ${skip}]`;

/** Calls go on trying for longer than a failover takes. */
const OPTIONS = { unavailableAfterMs: 60_000 };

/** node-redis does not end such a pause when its connection to the old primary is closed. */
const RECONNECT_PAUSE_MS = 2_200;

/** How long ioredis takes to end the connections by which it asked sentinels, and a little more. */
const DISCONNECT_MS = 2_500;

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

for (const name of ["node-redis-sentinel", "ioredis-sentinel"] as const) {
  Deno.test({
    name: `${name}: RedisLock works on after a failover, and grants its waiters the lock${suffix}`,
    ignore: skip !== undefined,
    async fn() {
      await using servers = await startRedisSentinels();
      const { primary, replica, sentinels } = servers;
      const opened = await Promise.all(
        [1, 2, 3].map(() => openSentinelClient(name, sentinels)),
      );
      const [a, b, c] = opened.map(({ client }) => new RedisLock(client, OPTIONS));
      const first = await a!.acquire("n");
      const second = await queue(b!, "n");
      const third = await queue(c!, "n");
      await waitUntil("both listen at the primary", async () => await inboxes(primary) === 2);
      await primary.command("WAIT", 1, 10_000); // the replica has the queue
      const epochs = opened.map(({ client }) => client.epoch);

      await primary.kill("SIGKILL");
      const during = a!.acquire("m");
      during.catch(() => {});
      for (const { client } of opened) {
        await waitUntil("the client says why", () => client.connectionError !== undefined);
      }
      await servers.promoted(replica);

      await (await within("the call that began during the failover is granted", during)).release();
      await first.release(); // it may have been lost with the primary
      const next = await within("the first waiter is granted", second.lease, 30_000);
      assert(next.fencingToken > first.fencingToken);
      assertEquals(await next.release(), true);
      const last = await within("the second waiter is granted", third.lease, 30_000);
      assert(last.fencingToken > next.fencingToken);
      opened.forEach(({ client }, i) => assert(client.epoch !== epochs[i], "the epoch changed"));
      opened.forEach(({ client }) => assertEquals(client.connectionError, undefined));

      await waitUntil("both listen at the new primary", async () => await inboxes(replica) === 2);
      const fourth = await queue(b!, "n");
      assertEquals(await last.release(), true);
      await (await within("the new waiter is granted", fourth.lease)).release();

      for (const lock of [a!, b!, c!]) await lock[Symbol.asyncDispose]();
      await Promise.all(opened.map(({ close }) => close()));
      await waitUntil("no connection is left", async () => {
        return (await foreignClients(replica)).length === 0;
      });
      await pause(RECONNECT_PAUSE_MS);
      await waitUntil("no key is left", async () => (await keysLeft(replica.command)).length === 0);
    },
  });
}

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
    await pause(500); // it tries to subscribe again
    await lock[Symbol.asyncDispose]();
    await close();
    await pause(DISCONNECT_MS); // a search that goes on would leave a timer
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
  stack.defer(() => sentinel.destroy());
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
    await using lock = new RedisLock(client, { ...OPTIONS, ttlMs: 60_000 });
    await (await lock.acquire("n")).release();
    await pause(100); // the memory check is over
    const lease = await lock.acquire("n");
    const { epoch } = client;
    proxy.onReply = () => {
      proxy.onReply = undefined;
      setTimeout(() => proxy.cutAll(), 50);
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
