/**
 * Users wrap clients, to trace their commands for instance: an adapter needs no `this`. And a client of a
 * user that throws does not keep disposal from releasing the locks.
 */
import { assertEquals, assertRejects } from "@std/assert";
import { Cluster, Redis } from "ioredis";
import { createClient, createCluster, createSentinel } from "redis";
import { denoRedis } from "../../redis/clients/deno_redis.ts";
import { ioredis } from "../../redis/clients/ioredis.ts";
import { nodeRedis } from "../../redis/clients/node_redis.ts";
import { type RedisClient, RedisLock } from "../../redis/mod.ts";
import { ASK } from "../../redis/protocol/scripts.ts";
import { DONE, NOTIFIED } from "../../redis/protocol/wire.ts";
import { FINISHED } from "../../testing/redis/wire_names.ts";
import { granted } from "../../testing/redis/scripted_client.ts";

const URL_NOWHERE = "redis://127.0.0.1:1";

/** Answers commands as a server with free locks does. */
function reply(command: string, args: string[]): unknown {
  if (command === "INFO") return "";
  return args[0] === ASK.sha1 ? granted(1) : [DONE, NOTIFIED, FINISHED];
}

/** A connection of deno-redis, as far as commands need it. */
function fakeConnection() {
  return {
    pipeline() {
      const replies: unknown[] = [];
      return {
        sendCommand(command: string, args: string[]) {
          return Promise.resolve(replies.push(reply(command, args)));
        },
        flush: () => Promise.resolve(replies),
      };
    },
    subscribe: () => Promise.reject(new Error("unused")),
    close: () => {},
  };
}

/** The adapters of clients that are not connected. */
function adapters(): RedisClient[] {
  return [
    ioredis(new Redis({ lazyConnect: true })),
    ioredis(new Cluster([URL_NOWHERE], { lazyConnect: true })),
    nodeRedis(createClient({ url: URL_NOWHERE })),
    nodeRedis(createCluster({ rootNodes: [{ url: URL_NOWHERE }] })),
    nodeRedis(createSentinel({ name: "n", sentinelRootNodes: [] })),
    denoRedis(() => Promise.resolve(fakeConnection())),
  ];
}

Deno.test("nodeRedis(), ioredis() and denoRedis() return a client that reads the same when it is wrapped or copied", () => {
  const members = ["epoch", "connectionError", "unusable", "cluster", "warning"] as const;
  for (const adapter of adapters()) {
    const expected = members.map((name) => adapter[name]);
    for (const wrapped of [Object.create(adapter), { ...adapter }] as RedisClient[]) {
      assertEquals(members.map((name) => wrapped[name]), expected);
      new RedisLock(wrapped);
    }
  }
});

Deno.test("denoRedis() and nodeRedis() of a Sentinel client return calls that can be taken out", async () => {
  const { send, reset, close } = denoRedis(() => Promise.resolve(fakeConnection()));
  assertEquals(await send("INFO", [], ""), "");
  reset!();
  assertEquals(await send("INFO", [], ""), "");
  await close!();
  const sentinel = nodeRedis(createSentinel({ name: "n", sentinelRootNodes: [] }));
  const { send: sendToPrimary } = sentinel;
  await assertRejects(() => sendToPrimary("INFO", [], ""), Error, "The client is closed");
});

Deno.test("RedisLock releases its locks at disposal through a wrapped adapter, and through a client that throws", async () => {
  const io = Object.assign(new Redis({ lazyConnect: true }), {
    call: (command: string, ...args: string[]) => Promise.resolve(reply(command, args)),
  });
  const own: RedisClient = {
    send: (command, args) => Promise.resolve(reply(command, args)),
    epoch: 1,
    cluster: false,
    get unusable(): never {
      throw new Error("a bug in a program");
    },
  };
  for (const inner of [ioredis(io as unknown as Redis), own]) {
    const sent: string[] = [];
    const client: RedisClient = Object.create(inner, {
      send: {
        value(command: string, args: string[], key: string) {
          sent.push(command);
          return inner.send(command, args, key);
        },
      },
    });
    const warnings: string[] = [];
    const onWarning = (text: string) => void warnings.push(text);
    const locks = new RedisLock(client, { disposeTimeoutMs: 100, onWarning });
    const lease = await locks.acquire("n");
    const before = sent.length;
    await locks[Symbol.asyncDispose]();
    assertEquals([sent.slice(before), lease.isHeld, warnings], [["EVALSHA"], false, []]);
  }
});
