/**
 * A client that cannot work is refused at once, as a setup error (invariant 9).
 */
import { assertEquals, assertThrows } from "@std/assert";
import { Redis } from "ioredis";
import { createClient, createClientPool, createCluster, createSentinel } from "redis";
import { LockSetupError } from "../../mod.ts";
import { denoRedis } from "../../redis/clients/deno_redis.ts";
import { ioredis } from "../../redis/clients/ioredis.ts";
import { nodeRedis } from "../../redis/clients/node_redis.ts";

const NO_CLIENTS: unknown[] = [null, undefined, {}, "redis://127.0.0.1", () => {}];

Deno.test("nodeRedis(), ioredis() and denoRedis() throw a LockSetupError when they get another value", () => {
  for (const value of NO_CLIENTS) {
    assertThrows(() => nodeRedis(value as never), LockSetupError, "createClient()");
    assertThrows(() => ioredis(value as never), LockSetupError, "new Redis()");
  }
  for (const value of [null, undefined, {}, "redis://127.0.0.1"]) {
    assertThrows(() => denoRedis(value as never), LockSetupError, "() => connect(");
  }
});

Deno.test("nodeRedis() throws a LockSetupError when it gets a pool or a client of ioredis", () => {
  const pool = createClientPool();
  assertThrows(() => nodeRedis(pool as never), LockSetupError, "a pool of node-redis clients");
  const client = new Redis({ lazyConnect: true });
  assertThrows(() => nodeRedis(client as never), LockSetupError, "use ioredis(client)");
});

Deno.test("nodeRedis() throws a LockSetupError when it gets a client of version 4, which has no destroy()", () => {
  const unused = () => {};
  const common = { sendCommand: unused, on: unused, duplicate: unused, disconnect: unused };
  for (const more of [{ isReady: true, isOpen: true }, { masters: [], nodeClient: unused }]) {
    const client = { ...common, ...more };
    assertThrows(() => nodeRedis(client as never), LockSetupError, "use version 5 or later");
  }
});

Deno.test("nodeRedis() throws a LockSetupError when the client has a 'keyPrefix', which raw commands ignore", () => {
  const keyPrefix = "app:";
  const client = createClient({ keyPrefix });
  const sentinel = createSentinel({ name: "n", sentinelRootNodes: [], keyPrefix });
  const cluster = createCluster({ rootNodes: [{ url: "redis://127.0.0.1:1" }], keyPrefix });
  for (const each of [client, client.withTypeMapping({}), sentinel, cluster]) {
    assertThrows(() => nodeRedis(each), LockSetupError, "set that of RedisLock instead");
  }
});

Deno.test("nodeRedis() takes a client, a Sentinel client and a cluster client, also as proxies", () => {
  const client = createClient();
  const sentinel = createSentinel({ name: "n", sentinelRootNodes: [] });
  const cluster = createCluster({ rootNodes: [{ url: "redis://127.0.0.1:1" }] });
  for (const each of [client, client.withTypeMapping({}), sentinel, cluster]) {
    assertEquals(nodeRedis(each).cluster, each === cluster);
  }
});
