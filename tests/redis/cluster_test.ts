/**
 * Redis Cluster: nodes that are lost, slots that move, and how the adapters report it.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { Cluster } from "ioredis";
import { type Lease, LockSetupError } from "../../mod.ts";
import { RedisLock, type RedisLockOptions } from "../../redis/mod.ts";
import { ioredis } from "../../redis/clients/ioredis.ts";
import type { RedisClientName } from "../../testing/conformance/open_lock.ts";
import { within } from "../../testing/conformance/wait.ts";
import {
  type RedisCluster,
  redisClusterSkip,
  startRedisCluster,
} from "../../testing/servers/redis_cluster.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { keysLeft } from "../../testing/redis/residue.ts";

const CLIENTS: RedisClientName[] = ["node-redis-cluster", "ioredis-cluster"];
const skip = await redisClusterSkip();

/** A cluster, and locks on it that are closed with it. */
async function open(clientName: RedisClientName, args: string[] = []) {
  const stack = new AsyncDisposableStack();
  const cluster = stack.use(await startRedisCluster({ args }));
  const connect = async () => {
    const { client, close } = await openRedisClient(clientName, cluster.url);
    stack.defer(close);
    return client;
  };
  return {
    cluster,
    connect,
    lock: async (options: RedisLockOptions = {}) =>
      stack.use(new RedisLock(await connect(), options)),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

function behaviour(
  name: string,
  test: (clientName: RedisClientName) => Promise<void>,
): void {
  for (const client of CLIENTS) {
    const reason = skip === undefined ? "" : ` [skipped: ${skip}]`;
    Deno.test({
      name: `${client}: ${name}${reason}`,
      ignore: skip !== undefined,
      fn: () => test(client),
    });
  }
}

/** Starts a call that waits. Resolves when the server has queued it. */
async function queue(lock: RedisLock, name: string) {
  let waits = false;
  const lease = lock.acquire(name, { onWait: () => void (waits = true) });
  lease.catch(() => {});
  await waitUntil("the waiter waits", () => waits);
  return { lease };
}

/** The number of inboxes with a subscriber, summed over all nodes. */
async function subscribers(cluster: RedisCluster): Promise<number> {
  const lists = cluster.masters.map(({ command }) => command("PUBSUB", "CHANNELS", "holdfast:*"));
  return (await Promise.all(lists) as string[][]).flat().length;
}

async function keysOf(cluster: RedisCluster): Promise<string[]> {
  return (await Promise.all(cluster.masters.map(({ command }) => keysLeft(command)))).flat();
}

behaviour(
  "RedisClient.subscribe() delivers messages of every node, even after its connection broke",
  async (name) => {
    await using redis = await open(name);
    const client = await redis.connect();
    assertEquals(client.cluster, true);
    const messages: string[] = [];
    let gaps = 0;
    const channel = "holdfast:1:inbox:x";
    const onMessage = (message: string) => messages.push(message);
    await client.send("GET", ["k"], "k"); // connects a node
    await using _subscription = await client.subscribe!(channel, onMessage, () => gaps++);
    const publish = async () => {
      for (const { command } of redis.cluster.masters) await command("PUBLISH", channel, "m");
    };
    await publish();
    await waitUntil("a message of each node has arrived", () => messages.length === 3);
    for (const { command } of redis.cluster.masters) {
      await command("CLIENT", "KILL", "TYPE", "pubsub");
    }
    await waitUntil("the gap is reported", () => gaps > 0);
    await publish();
    await waitUntil("a second message of each node has arrived", () => messages.length === 6);
  },
);

behaviour("RedisClient.epoch changes when the connection to any node is lost", async (name) => {
  await using redis = await open(name);
  const client = await redis.connect();
  for (const key of ["a", "b", "c"]) {
    await client.send("SET", [key, "x"], key);
    const { command } = await redis.cluster.masterOf(key);
    assertEquals(await command("GET", key), "x");
    const { epoch } = client;
    await command("CLIENT", "KILL", "TYPE", "normal");
    await waitUntil("the epoch changes", () => client.epoch !== epoch);
    await waitUntil(
      "the node is connected again",
      () => client.send("GET", [key], key).then(() => true, () => false),
    );
  }
});

behaviour(
  "RedisClient.connectionError tells why a node is down, as long as it is",
  async (name) => {
    await using redis = await open(name);
    const client = await redis.connect();
    for (const key of ["a", "b", "c"]) await client.send("SET", [key, "x"], key); // connects all nodes
    assertEquals(client.connectionError, undefined);
    const node = await redis.cluster.masterOf("a");
    await node.kill("SIGKILL");
    const reads: Promise<unknown>[] = [];
    const read = () => reads.push(client.send("GET", ["a"], "a").catch(() => {})); // may connect
    await waitUntil("the error is reported", () => {
      read();
      return (client.connectionError as { code?: unknown } | undefined)?.code === "ECONNREFUSED";
    });
    await node.restart();
    await waitUntil("the error is forgotten", () => {
      read();
      return client.connectionError === undefined;
    });
    await Promise.all(reads);
  },
);

behaviour(
  "RedisLock keeps leases and queues when their slot moves to another node",
  async (name) => {
    await using redis = await open(name);
    const [a, b, c] = [await redis.lock(), await redis.lock(), await redis.lock()];
    const first = await a.acquire("n");
    const second = await queue(b, "n");
    const third = await queue(c, "n");
    const { cluster } = redis;
    const source = await cluster.masterOf("lock:n");
    const target = cluster.masters.find((master) => master !== source)!;
    await cluster.moveSlot("lock:n", target);
    assertEquals(await target.command("EXISTS", "lock:n"), 1);
    await first.renew();
    assertEquals(await first.release(), true);
    const next = await within("the first waiter is granted", second.lease);
    assert(next.fencingToken > first.fencingToken);
    assertEquals(await next.release(), true);
    const last = await within("the second waiter is granted", third.lease);
    assert(last.fencingToken > next.fencingToken);
    assertEquals(await last.release(), true);
    await waitUntil("nothing is left", async () => (await keysOf(cluster)).length === 0);
  },
);

behaviour("RedisLock.acquire() succeeds after a slot move that was in progress", async (name) => {
  await using redis = await open(name);
  const lock = await redis.lock({ unavailableAfterMs: 60_000 });
  await (await lock.acquire("n")).release();
  const { masters, masterOf, moveSlot } = redis.cluster;
  const source = await masterOf("lock:n");
  const target = masters.find((master) => master !== source)!;
  let wait: Promise<Lease> | undefined;
  await moveSlot("lock:n", target, async () => {
    wait = lock.acquire("n");
    wait.catch(() => {});
    await waitUntil("the server answers TRYAGAIN", async () => {
      const infos = [source, target].map(({ command }) => command("INFO", "errorstats"));
      return (await Promise.all(infos)).some((info) => String(info).includes("TRYAGAIN"));
    });
  });
  await using lease = await within("the lock is acquired", wait!);
  lease.throwIfLost();
  assertEquals(await target.command("EXISTS", "lock:n"), 1);
});

behaviour("RedisLock keeps leases and queues when a node restarts with its data", async (name) => {
  await using redis = await open(name, ["--appendonly", "yes", "--appendfsync", "always"]);
  const options = { ttlMs: 60_000, unavailableAfterMs: 60_000 };
  const [a, b] = [await redis.lock(options), await redis.lock(options)];
  const lease = await a.acquire("n");
  const wait = await queue(b, "n");
  const node = await redis.cluster.masterOf("lock:n");
  await node.kill("SIGKILL");
  // The other nodes still grant their locks.
  const other = await a.acquire(await nameOnAnother(redis.cluster, "n"));
  await other.release();
  const late = b.acquire("n");
  await node.restart();
  assertEquals(await lease.release(), true);
  const next = await within("the waiter is granted", wait.lease);
  assert(next.fencingToken > lease.fencingToken);
  await next.release();
  await using last = await within("the call that began during the restart is granted", late);
  assert(last.fencingToken > next.fencingToken);
});

behaviour(
  "RedisLock grants waiters the lock when a node restarts without its data",
  async (name) => {
    await using redis = await open(name);
    const [a, b] = [await redis.lock(), await redis.lock({ unavailableAfterMs: 60_000 })];
    const lost = await a.acquire("n");
    const wait = await queue(b, "n");
    await (await redis.cluster.masterOf("lock:n")).restart();
    await using next = await within("the waiter is granted", wait.lease);
    assert(next.fencingToken > lost.fencingToken);
  },
);

behaviour("RedisLock closes its subscription when it is disposed", async (name) => {
  await using redis = await open(name);
  const [a, b] = [await redis.lock(), await redis.lock()];
  await using lease = await a.acquire("n");
  const wait = await queue(b, "n");
  await waitUntil("the waiter listens", async () => await subscribers(redis.cluster) === 1);
  await lease.release();
  await (await within("the waiter is granted", wait.lease)).release();
  await b[Symbol.asyncDispose]();
  await waitUntil("no subscriber is left", async () => await subscribers(redis.cluster) === 0);
});

Deno.test("ioredis() throws when a cluster client has a 'keyPrefix'", () => {
  for (const options of [{ keyPrefix: "x:" }, { redisOptions: { keyPrefix: "x:" } }]) {
    const client = new Cluster(["redis://127.0.0.1:1"], { ...options, lazyConnect: true });
    assertThrows(() => ioredis(client), LockSetupError, "keyPrefix");
  }
});

/** A name whose lock is on another master. */
async function nameOnAnother(cluster: RedisCluster, name: string): Promise<string> {
  const master = await cluster.masterOf(`lock:${name}`);
  for (let i = 0;; i++) {
    if (await cluster.masterOf(`lock:${name}-${i}`) !== master) return `${name}-${i}`;
  }
}
