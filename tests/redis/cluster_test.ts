/**
 * Redis Cluster: nodes that are lost, slots that move, and how the adapters report it.
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Cluster } from "ioredis";
import { type Lease, LockSetupError } from "../../mod.ts";
import { type RedisClient, RedisLock, type RedisLockOptions } from "../../redis/mod.ts";
import { ioredis } from "../../redis/clients/ioredis.ts";
import type { RedisClientName } from "../../testing/conformance/open_lock.ts";
import { within } from "../../testing/conformance/bounds.ts";
import {
  type RedisCluster,
  redisClusterSkip,
  startRedisCluster,
} from "../../testing/servers/redis_cluster.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { keysLeft } from "../../testing/redis/residue.ts";
import { MAX_UNANSWERED } from "../../redis/protocol/command_window.ts";
import type { RedisServer } from "../../testing/servers/redis.ts";
import { CONDITION_BOUND_MS, KEPT_TTL_MS, LONG_TTL_MS } from "../../testing/time.ts";

const CLIENTS: RedisClientName[] = ["node-redis-cluster", "ioredis-cluster"];
const skip = await redisClusterSkip();
const note = skip === undefined ? "" : ` [skipped: ${skip}]`;

/** The cluster of all tests that kill no node. A start takes over 2 s: until then no master accepts writes. */
let shared: RedisCluster;
if (skip === undefined) {
  Deno.test.beforeAll(async () => void (shared = await startRedisCluster()));
  Deno.test.afterAll(async () => await shared[Symbol.asyncDispose]());
}

/** Clients and locks on a cluster that are closed together. */
function open(clientName: RedisClientName, { url }: RedisCluster) {
  const stack = new AsyncDisposableStack();
  const connect = async () => {
    const { client, close } = await openRedisClient(clientName, url);
    stack.defer(close);
    return client;
  };
  return {
    connect,
    lock: async (options: RedisLockOptions = {}) =>
      stack.use(new RedisLock(await connect(), options)),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Registers a test of each client on the shared cluster. */
function behaviour(
  name: string,
  test: (redis: ReturnType<typeof open>) => Promise<void>,
): void {
  for (const client of CLIENTS) {
    Deno.test({
      name: `${client}: ${name}${note}`,
      ignore: skip !== undefined,
      fn: async () => {
        await using redis = open(client, shared);
        await test(redis);
      },
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
async function subscribers(): Promise<number> {
  const lists = shared.masters.map(({ command }) => command("PUBSUB", "CHANNELS", "holdfast:*"));
  return (await Promise.all(lists) as string[][]).flat().length;
}

/** The keys that a lock has left on any node. */
async function keysOf(name: string): Promise<string[]> {
  return (await Promise.all(shared.masters.map(({ command }) => keysLeft(command, name)))).flat();
}

behaviour(
  "RedisClient.subscribe() delivers messages of every node until its connection breaks, and does so again",
  async (redis) => {
    const client = await redis.connect();
    assertEquals(client.cluster, true);
    const messages: string[] = [];
    const channel = "holdfast:1:inbox:x";
    const onMessage = (message: string) => messages.push(message);
    await client.send("GET", ["k"], "k"); // connects a node
    for (const count of [3, 6]) {
      const subscribed = Promise.withResolvers<void>();
      const { signal } = new AbortController();
      const ended = client.subscribe!(channel, onMessage, subscribed.resolve, signal);
      await subscribed.promise;
      for (const { command } of shared.masters) await command("PUBLISH", channel, "m");
      await waitUntil("a message of each node has arrived", () => messages.length === count);
      for (const { command } of shared.masters) {
        await command("CLIENT", "KILL", "TYPE", "pubsub");
      }
      await within("it ends with its connection", ended);
    }
  },
);

behaviour("RedisClient.epoch changes when the connection to any node is lost", async (redis) => {
  const client = await redis.connect();
  for (const key of ["a", "b", "c"]) {
    await client.send("SET", [key, "x"], key);
    const { command } = await shared.masterOf(key);
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
  "RedisLock keeps leases and queues when their slot moves to another node",
  async (redis) => {
    const name = crypto.randomUUID();
    const key = `lock:${name}`;
    const [a, b, c] = [await redis.lock(), await redis.lock(), await redis.lock()];
    const first = await a.acquire(name);
    const second = await queue(b, name);
    const third = await queue(c, name);
    const source = await shared.masterOf(key);
    const target = shared.masters.find((master) => master !== source)!;
    await shared.moveSlot(key, target);
    assertEquals(await target.command("EXISTS", key), 1);
    await first.renew();
    assertEquals(await first.release(), true);
    const next = await within("the first waiter is granted", second.lease);
    assert(next.fencingToken > first.fencingToken);
    assertEquals(await next.release(), true);
    const last = await within("the second waiter is granted", third.lease);
    assert(last.fencingToken > next.fencingToken);
    assertEquals(await last.release(), true);
    await waitUntil("nothing is left", async () => (await keysOf(name)).length === 0);
  },
);

behaviour("RedisLock.acquire() succeeds after a slot move that was in progress", async (redis) => {
  const name = crypto.randomUUID();
  const key = `lock:${name}`;
  const lock = await redis.lock({ unavailableAfterMs: CONDITION_BOUND_MS });
  await (await lock.acquire(name)).release();
  const { masters, masterOf, moveSlot } = shared;
  const source = await masterOf(key);
  const target = masters.find((master) => master !== source)!;
  for (const { command } of [source, target]) await command("CONFIG", "RESETSTAT");
  let wait: Promise<Lease> | undefined;
  await moveSlot(key, target, async () => {
    wait = lock.acquire(name);
    wait.catch(() => {});
    await waitUntil("the server answers TRYAGAIN", async () => {
      const infos = [source, target].map(({ command }) => command("INFO", "errorstats"));
      return (await Promise.all(infos)).some((info) => String(info).includes("TRYAGAIN"));
    });
  });
  await using lease = await within("the lock is acquired", wait!);
  lease.throwIfLost();
  assertEquals(await target.command("EXISTS", key), 1);
});

/** The steps of one client while the node that has its lock restarts, with its data or without. */
interface Restart {
  /** Called before the kill, while it is down, and when it serves again. */
  readonly before: () => Promise<void>;
  readonly meanwhile: () => Promise<void>;
  readonly after: () => Promise<void>;
}

/** One lock name per client: all locks are on the same node. */
function nameOf(clientName: RedisClientName): string {
  return `{n}${clientName}`;
}

function restartWithData(
  redis: ReturnType<typeof open>,
  cluster: RedisCluster,
  name: string,
): Restart {
  const options = { ttlMs: LONG_TTL_MS, unavailableAfterMs: CONDITION_BOUND_MS };
  let [client, a, b]: [RedisClient?, RedisLock?, RedisLock?] = [];
  let [lease, wait, late]: [Lease?, Promise<Lease>?, Promise<Lease>?] = [];
  const reads: Promise<unknown>[] = [];
  const read = () => reads.push(client!.send("GET", [name], name).catch(() => {})); // may connect
  return {
    async before() {
      [client, a, b] = [
        await redis.connect(),
        await redis.lock(options),
        await redis.lock(options),
      ];
      for (const { port } of cluster.masters) { // connects all nodes
        const key = await nameOn(cluster, port);
        await client.send("SET", [key, "x"], key);
      }
      assertEquals(client.connectionError, undefined);
      lease = await a.acquire(name);
      wait = (await queue(b, name)).lease;
    },
    async meanwhile() {
      await waitUntil("the error is reported", () => {
        read();
        return (client!.connectionError as { code?: unknown } | undefined)?.code === "ECONNREFUSED";
      });
      const { port } = await cluster.masterOf(name);
      const other = cluster.masters.find((master) => master.port !== port)!;
      await (await a!.acquire(await nameOn(cluster, other.port, "lock:"))).release();
      late = b!.acquire(name);
      late.catch(() => {}); // it is awaited later
    },
    async after() {
      await waitUntil("the error is forgotten", () => {
        read();
        return client!.connectionError === undefined;
      });
      assertEquals(await lease!.release(), true);
      const next = await within("the waiter is granted", wait!);
      assert(next.fencingToken > lease!.fencingToken);
      await next.release();
      const last = await within("the call that began during the restart is granted", late!);
      assert(last.fencingToken > next.fencingToken);
      await last.release();
      await Promise.all(reads);
    },
  };
}

function restartWithoutData(redis: ReturnType<typeof open>, name: string): Restart {
  let [lost, wait]: [Lease?, Promise<Lease>?] = [];
  return {
    async before() {
      const options = { unavailableAfterMs: CONDITION_BOUND_MS };
      const [a, b] = [await redis.lock(options), await redis.lock(options)];
      lost = await a.acquire(name);
      wait = (await queue(b, name)).lease;
    },
    meanwhile: () => Promise.resolve(),
    async after() {
      const next = await within("the waiter is granted", wait!);
      assert(next.fencingToken > lost!.fencingToken);
      await next.release();
    },
  };
}

Deno.test({
  name:
    `${
      CLIENTS.join(" and ")
    }: RedisLock keeps leases and queues when a node restarts with its data, ` +
    `and grants waiters the lock when it restarts without; RedisClient.connectionError tells why it is down${note}`,
  ignore: skip !== undefined,
  async fn() {
    await using cluster = await startRedisCluster({
      args: ["--appendonly", "yes", "--appendfsync", "always"],
    });
    await using stack = new AsyncDisposableStack();
    const clients = CLIENTS.map((clientName) => {
      return { name: nameOf(clientName), redis: stack.use(open(clientName, cluster)) };
    });
    const node = await cluster.masterOf("{n}");
    const [, directory] = await node.command("CONFIG", "GET", "dir") as [string, string];
    for (const keepsData of [true, false]) {
      const restarts = clients.map(({ redis, name }) => {
        return keepsData ? restartWithData(redis, cluster, name) : restartWithoutData(redis, name);
      });
      await Promise.all(restarts.map(({ before }) => before()));
      await node.kill("SIGKILL");
      if (!keepsData) await Deno.remove(`${directory}/appendonlydir`, { recursive: true });
      // The other nodes still grant their locks.
      await Promise.all(restarts.map(({ meanwhile }) => meanwhile()));
      await node.restart();
      await Promise.all(restarts.map(({ after }) => after()));
    }
  },
});

behaviour(
  "RedisLock keeps and grants locks on other nodes while one node does not answer",
  async (redis) => {
    const [silent, other] = shared.masters as [RedisServer, RedisServer];
    const [blocked, free] = [
      await nameOn(shared, silent.port),
      await nameOn(shared, other.port),
    ];
    const options = { ttlMs: KEPT_TTL_MS, unavailableAfterMs: CONDITION_BOUND_MS };
    const lock = await redis.lock(options);
    await using lease = await lock.acquire(`{${free}}`);
    await (await lock.acquire(`{${blocked}}`)).release(); // connects the node
    await silent.pause();
    const calls = Array.from({ length: 2 * MAX_UNANSWERED }, async (_, i) => {
      await using _lease = await lock.acquire(`{${blocked}}-${i}`);
    });
    for (const call of calls) call.catch(() => {}); // it is awaited later
    try {
      await lease.renew();
      await (await within("another lock is granted", lock.acquire(`{${free}}-2`))).release();
    } finally {
      await silent.resume();
    }
    await Promise.all(calls);
  },
);

behaviour("RedisLock closes its subscription when it is disposed", async (redis) => {
  const name = crypto.randomUUID();
  const [a, b] = [await redis.lock(), await redis.lock()];
  await using lease = await a.acquire(name);
  const wait = await queue(b, name);
  await waitUntil("the waiter listens", async () => await subscribers() === 1);
  await lease.release();
  await (await within("the waiter is granted", wait.lease)).release();
  await b[Symbol.asyncDispose]();
  await waitUntil("no subscriber is left", async () => await subscribers() === 0);
});

/** Clients of one server: they follow no redirection. */
const SINGLE: RedisClientName[] = ["node-redis", "ioredis", "deno-redis-like"];
/** Far longer than a test waits, in ms. */
const NEVER_MS = 600_000;
const ADVICE =
  "the server is a node of a cluster, and this client is not one of a cluster (MOVED). " +
  "Use createCluster(), new Cluster() or a URL with redis+cluster://";

/** The name of a lock on the node at the URL, which a client of one server is connected to; or on another. */
async function nameAt(isOnNode: boolean): Promise<string> {
  for (;;) {
    const name = crypto.randomUUID();
    if ((await shared.masterOf(`lock:${name}`)).url === shared.url === isOnNode) return name;
  }
}

for (const clientName of SINGLE) {
  Deno.test({
    name:
      `${clientName}: RedisLock rejects with LockSetupError at once when the server is a node of a cluster that has not the lock${note}`,
    ignore: skip !== undefined,
    async fn() {
      await using redis = open(clientName, shared);
      const name = await nameAt(false);
      const lock = await redis.lock({ unavailableAfterMs: NEVER_MS });
      const calls = [
        () => lock.acquire(name),
        () => lock.acquire(name, { waitMs: NEVER_MS }),
        () => lock.tryAcquire(name, { ownerId: "job-7" }),
        () => lock.attach(name, "job-8"),
        () => lock.query(name),
        () => lock.request(name, { steal: true }, () => {}),
      ];
      for (const call of calls) {
        const error = await within("it rejects at once", assertRejects(call, LockSetupError));
        assertEquals(error.message, `Cannot use Redis for lock "${name}": ${ADVICE}`);
        assert(/^-?MOVED /.test((error.cause as Error).message), String(error.cause));
      }
    },
  });

  Deno.test({
    name:
      `${clientName}: Lease.release() rejects with LockSetupError when its slot has moved to another node, as the lock stays held${note}`,
    ignore: skip !== undefined,
    async fn() {
      await using redis = open(clientName, shared);
      const name = await nameAt(true);
      const key = `lock:${name}`;
      const lock = await redis.lock({ ttlMs: LONG_TTL_MS });
      const lease = await lock.acquire(name);
      const target = shared.masters.find(({ url }) => url !== shared.url)!;
      await shared.moveSlot(key, target);
      const released = assertRejects(() => lease.release(), LockSetupError);
      const { message } = await within("it rejects at once", released);
      const reason = `Cannot release lock "${name}": Redis refuses: ${ADVICE}. `;
      assertEquals(message, `${reason}Until its TTL is over, the lock stays held`);
      assertEquals(await target.command("DEL", key), 1);
    },
  });
}

Deno.test("ioredis() throws when a cluster client has a 'keyPrefix'", () => {
  for (const options of [{ keyPrefix: "x:" }, { redisOptions: { keyPrefix: "x:" } }]) {
    const client = new Cluster(["redis://127.0.0.1:1"], { ...options, lazyConnect: true });
    assertThrows(() => ioredis(client), LockSetupError, "keyPrefix");
  }
});

/** A key, or what follows `prefix` in it, on the master with this port. */
async function nameOn(cluster: RedisCluster, port: number, prefix = ""): Promise<string> {
  for (let i = 0;; i++) {
    if ((await cluster.masterOf(`${prefix}k-${i}`)).port === port) return `k-${i}`;
  }
}
