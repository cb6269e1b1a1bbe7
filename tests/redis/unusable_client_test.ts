/**
 * A client that can never send a command is an error of setup, at once; only a lost connection is an
 * outage (invariant 9). And what errors and disposal say of such clients.
 */
import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { inspect } from "node:util";
import { Cluster, Redis } from "ioredis";
import { createClient, createCluster, createSentinel } from "redis";
import { LockError, LockSetupError, LockUnavailableError } from "../../mod.ts";
import { ioredis } from "../../redis/clients/ioredis.ts";
import { nodeRedis } from "../../redis/clients/node_redis.ts";
import { type RedisClient, RedisLock } from "../../redis/mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { endIoredis } from "../../testing/redis/clients.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

/** Nobody listens there. */
const NOWHERE = { host: "127.0.0.1", port: 1 };
const URL_NOWHERE = "redis://127.0.0.1:1";
/** Far longer than a test waits, in ms. */
const NEVER_MS = 600_000;

function callsOf(lock: RedisLock): (() => Promise<unknown>)[] {
  return [
    () => lock.acquire("n"),
    () => lock.tryAcquire("n", { ownerId: "job-7" }),
    () => lock.attach("n", "job-8"),
    () => lock.query("n"),
    () => lock.request("n", { steal: true }, () => {}),
  ];
}

async function assertSetupErrors(client: RedisClient): Promise<void> {
  await using lock = new RedisLock(client, { unavailableAfterMs: NEVER_MS });
  for (const call of callsOf(lock)) {
    const error = await within("it rejects at once", assertRejects(call, LockSetupError));
    assertInstanceOf(error, LockSetupError);
    assertEquals(error.lockName, "n");
    assert(error.message.startsWith('Cannot use Redis for lock "n": the client is not connected'));
  }
}

Deno.test("RedisLock rejects with LockSetupError at once when a node-redis client was never connected", async () => {
  const sentinelRootNodes = [NOWHERE];
  await assertSetupErrors(nodeRedis(createClient({ url: URL_NOWHERE })));
  await assertSetupErrors(nodeRedis(createCluster({ rootNodes: [{ url: URL_NOWHERE }] })));
  await assertSetupErrors(nodeRedis(createSentinel({ name: "n", sentinelRootNodes })));
});

Deno.test("RedisLock rejects with LockSetupError at once when its client is closed", async () => {
  await using server = await startRedis();
  const client = createClient({ url: server.url }).on("error", () => {});
  const adapted = nodeRedis(client);
  await client.connect();
  {
    await using lock = new RedisLock(adapted);
    await (await lock.acquire("n")).release();
  }
  await client.close();
  await assertSetupErrors(adapted);
  const single = new Redis({ ...NOWHERE, lazyConnect: true }).on("error", () => {});
  single.disconnect();
  await assertSetupErrors(ioredis(single));
  const cluster = new Cluster([URL_NOWHERE], { lazyConnect: true }).on("error", () => {});
  cluster.disconnect();
  await assertSetupErrors(ioredis(cluster));
});

Deno.test("RedisLock rejects with LockSetupError at once when its ioredis client subscribes or monitors", async () => {
  await using server = await startRedis();
  const client = new Redis(server.url, { protocol: 2 });
  await client.subscribe("c");
  const monitor = await new Redis(server.url, { lazyConnect: true, protocol: 2 }).monitor();
  for (const each of [client, monitor]) {
    await using lock = new RedisLock(ioredis(each), { unavailableAfterMs: NEVER_MS });
    const error = await within(
      "it rejects at once",
      assertRejects(() => lock.acquire("n"), LockSetupError),
    );
    assertStringIncludes((error as Error).message, "Give the locks a client that neither");
  }
  for (const each of [client, monitor]) await endIoredis(each);
});

Deno.test("RedisLock rejects a call that waits with LockSetupError when its client is closed", async () => {
  await using server = await startRedis();
  const [one, two] = [1, 2].map(() => createClient({ url: server.url }).on("error", () => {}));
  await one!.connect();
  await two!.connect();
  await using lock = new RedisLock(nodeRedis(one!));
  await using other = new RedisLock(nodeRedis(two!), { onWarning: () => {} });
  await using _held = await lock.acquire("n");
  const waiting = assertRejects(() => other.acquire("n"), LockSetupError);
  await waitUntil("it waits", async () => (await lock.query("n")).waiterCount === 1);
  two!.destroy();
  await within("it rejects with its next ask", waiting);
  await other[Symbol.asyncDispose]();
  await _held.release();
  await lock[Symbol.asyncDispose]();
  one!.destroy();
});

Deno.test("RedisLock rejects with LockUnavailableError while its client reconnects, and when it could not connect", async () => {
  await using server = await startRedis();
  const { hostname: host, port } = server;
  const node = createClient({ url: server.url }).on("error", () => {});
  await node.connect();
  const io = new Redis({ host, port }).on("error", () => {});
  const clients = [nodeRedis(node), ioredis(io)];
  for (const client of clients) {
    await using lock = new RedisLock(client);
    await lock.query("n");
  }
  await server.kill("SIGKILL");
  const refused = createClient({ url: URL_NOWHERE, socket: { reconnectStrategy: false } });
  const never = nodeRedis(refused.on("error", () => {}));
  await assertRejects(() => refused.connect());
  const lazy = new Redis({ ...NOWHERE, lazyConnect: true, retryStrategy: () => null });
  for (const client of [...clients, never, ioredis(lazy.on("error", () => {}))]) {
    await using lock = new RedisLock(client, { unavailableAfterMs: 300, disposeTimeoutMs: 100 });
    await Promise.all(callsOf(lock).map((call) => assertRejects(call, LockUnavailableError)));
  }
  await server.restart(); // else the reconnect timers of the client packages are leaks
  await waitUntil("both are back", () => node.isReady && io.status === "ready");
  node.destroy();
  await endIoredis(io);
});

Deno.test("nodeRedis() and ioredis() name the right adapter when they get a client of the other package", () => {
  const cluster = new Cluster([URL_NOWHERE], { lazyConnect: true });
  for (const client of [new Redis({ lazyConnect: true }), cluster]) {
    assertThrows(() => nodeRedis(client as never), LockSetupError, "use ioredis(client)");
    client.disconnect();
  }
  const node = createCluster({ rootNodes: [{ url: URL_NOWHERE }] });
  for (const client of [createClient(), node]) {
    assertThrows(() => ioredis(client as never), LockSetupError, "use nodeRedis(client)");
  }
});

Deno.test("RedisLock ends its disposal at once, and says so, when the client was closed before", async () => {
  await using server = await startRedis();
  for (const isHeld of [true, false]) {
    const client = createClient({ url: server.url }).on("error", () => {});
    await client.connect();
    const warnings: string[] = [];
    const lock = new RedisLock(nodeRedis(client), {
      disposeTimeoutMs: NEVER_MS,
      onWarning: (message) => warnings.push(message),
    });
    const lease = await lock.acquire("n");
    if (!isHeld) await lease.release();
    client.destroy();
    await within("it is disposed", lock[Symbol.asyncDispose]());
    assertEquals(
      warnings,
      isHeld
        ? [
          "The Redis client was closed before its locks: 1 of them stays held until its TTL is over. " +
          "Dispose the RedisLock first, then close the client",
        ]
        : [],
    );
    await server.command("DEL", "lock:n");
  }
});

Deno.test("RedisLock shows no owner id in the causes of its errors, which ioredis puts the command on", async () => {
  await using server = await startRedis();
  const { hostname: host, port } = server;
  const io = new Redis({ host, port }).on("error", () => {});
  {
    await using lock = new RedisLock(ioredis(io), { unavailableAfterMs: 500 });
    await server.command("RPUSH", "lock:n", "x");
    await server.command("CONFIG", "SET", "maxmemory", 1);
    for (const name of ["n", "full"]) {
      const error = await assertRejects(
        () => lock.acquire(name, { ownerId: "very-secret" }),
        LockError,
      );
      assertInstanceOf(error.cause, Error);
      const shown = inspect(error, { depth: 10, showHidden: true });
      assert(!shown.includes("very-secret"), shown);
    }
    await server.command("CONFIG", "SET", "maxmemory", 0);
  }
  await endIoredis(io);
});
