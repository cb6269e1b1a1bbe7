/**
 * The deno-redis adapter, whose client repeats commands without an event, and opens connections again
 * that were closed while it reconnected.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { denoRedis, type DenoRedisConnection } from "../../redis/clients/deno_redis.ts";
import { RedisLock } from "../../redis/mod.ts";
import { lockKeys } from "../../redis/protocol/keys.ts";
import { settle } from "../../testing/core/fake_clock.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { TOMBSTONE_PREFIX } from "../../testing/redis/wire_names.ts";
import { connectLike } from "../../testing/redis/deno_redis_like.ts";
import { type FaultProxy, startProxy } from "../../testing/servers/proxy.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { warmUp } from "../../testing/redis/memory_check.ts";
import { CONDITION_BOUND_MS, LONG_TTL_MS, QUIET_MS } from "../../testing/time.ts";

const NAMES = ["deno-redis-like", "deno-redis-like-eventless"] as const;

/** After this time without an answer the adapter drops the connection. */
const COMMAND_TIMEOUT_MS = 200;

function urlOf({ hostname, port }: FaultProxy): string {
  return `redis://${hostname}:${port}`;
}

/** How many scripts the server was asked to run. */
async function scriptCalls(server: RedisServer): Promise<number> {
  const stats = String(await server.command("INFO", "commandstats"));
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1]);
}

/** When the tombstones in the hash of a queue end, in ms of the server's clock, and what time it is there. */
async function tombstonesIn({ command }: RedisServer, waiters: string) {
  const fields = await command("HGETALL", waiters) as string[];
  const tombstones = fields.filter((_, i) => fields[i - 1]?.startsWith(TOMBSTONE_PREFIX)).map(
    Number,
  );
  const [seconds] = await command("TIME") as [string, string];
  return { tombstones, nowMs: Number(seconds) * 1_000 };
}

/** Swallows the next reply, and breaks its connection: the client sends its command again. */
function loseNextReply(proxy: FaultProxy): void {
  proxy.onReply = () => {
    proxy.onReply = undefined;
    queueMicrotask(() => proxy.cutAll());
    return "drop";
  };
}

for (const name of NAMES) {
  Deno.test(`${name}: Lease.release() returns true when its reply is lost`, async () => {
    await using server = await startRedis();
    await using proxy = startProxy(server);
    const { client, close } = await openRedisClient(name, urlOf(proxy));
    try {
      await using lock = new RedisLock(client, { ttlMs: LONG_TTL_MS });
      await warmUp(lock, proxy);
      const lease = await lock.acquire("n");
      loseNextReply(proxy);
      assertEquals(await within("the release is answered", lease.release()), true);
      const run = lock.request("n", () => {
        loseNextReply(proxy);
        return "done";
      });
      assertEquals(await within("the request is over", run), "done");
    } finally {
      await close();
    }
  });

  Deno.test(`${name}: Lease.release() returns false when the lock was lost before`, async () => {
    await using server = await startRedis();
    const { client, close } = await openRedisClient(name, server.url);
    try {
      await using lock = new RedisLock(client, { ttlMs: LONG_TTL_MS });
      const lease = await lock.acquire("n");
      await server.command("SET", "lock:n", "somebody else");
      assertEquals(await within("the release is answered", lease.release()), false);
    } finally {
      await close();
    }
  });

  Deno.test(`${name}: a connection that is dropped during an outage is not left open`, async () => {
    await using server = await startRedis();
    await using proxy = startProxy(server);
    const { client, close } = await openRedisClient(name, urlOf(proxy));
    const options = {
      commandTimeoutMs: COMMAND_TIMEOUT_MS,
      unavailableAfterMs: CONDITION_BOUND_MS,
    };
    const [a, b] = [new RedisLock(client, options), new RedisLock(client, options)];
    const lease = await a.acquire("n");
    const waiter = b.acquire("n"); // subscribes
    await waitUntil("the waiter listens", async () => {
      return (await server.command("PUBSUB", "CHANNELS") as string[]).length === 1;
    });
    await proxy.refuse(true);
    proxy.cutAll();
    const released = lease.release();
    // No condition: the adapter drops its connection in silence, when the command times out.
    await pause(2 * COMMAND_TIMEOUT_MS);
    await proxy.refuse(false);
    assert(await within("the release is answered", released));
    await (await within("the waiter is granted", waiter)).release();
    await Promise.all([a[Symbol.asyncDispose](), b[Symbol.asyncDispose]()]);
    await close();
    await waitUntil("no connection is left", () => proxy.connections === 0);
    // No condition: none may be opened again, which the client tries every 20 ms.
    await pause(QUIET_MS);
    await waitUntil("only the observer is left", async () => {
      return String(await server.command("CLIENT", "LIST")).trim().split("\n").length === 1;
    });
  });

  Deno.test(`${name}: a lock that is disposed during an outage leaves no connection open`, async () => {
    await using server = await startRedis();
    await using proxy = startProxy(server);
    const { client, close } = await openRedisClient(name, urlOf(proxy));
    const [a, b] = [new RedisLock(client), new RedisLock(client, { disposeTimeoutMs: 200 })];
    await a.acquire("n");
    b.acquire("n").catch(() => {}); // subscribes
    await waitUntil("the waiter listens", async () => {
      return (await server.command("PUBSUB", "CHANNELS") as string[]).length === 1;
    });
    await proxy.refuse(true);
    proxy.cutAll();
    await waitUntil("the client knows of the outage", () => client.connectionError !== undefined);
    await b[Symbol.asyncDispose]();
    await proxy.refuse(false);
    await a[Symbol.asyncDispose]();
    await close();
    // No condition: both connections may be opened again meanwhile, by attempts every 20 ms.
    await pause(QUIET_MS);
    await waitUntil("no connection is left", () => proxy.connections === 0);
  });
}

Deno.test("denoRedis() has another epoch at each read when the client reports no events", async () => {
  await using server = await startRedis();
  for (const hasEvents of [true, false]) {
    const client = denoRedis(() => connectLike(server.url, { hasEvents }));
    await client.send("PING", [], "");
    if (hasEvents) assertEquals(client.epoch, client.epoch);
    else assertEquals(new Set([client.epoch, client.epoch]).size, 2);
    await client.close!();
  }
});

Deno.test("RedisLock sends two commands per cycle when the client reports no events, and sweeps its tombstones", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("deno-redis-like-eventless", server.url);
  try {
    await using lock = new RedisLock(client, { ttlMs: LONG_TTL_MS }); // no renewal is counted
    const cycles = async (count: number) => {
      for (let i = 0; i < count; i++) await (await lock.acquire("n")).release();
    };
    await cycles(1);
    const before = await scriptCalls(server);
    await cycles(200);
    const calls = await scriptCalls(server) - before;
    // An ask that a stalled machine delays by over a second is sent again.
    assert(calls >= 2 * 200 && calls < 2.5 * 200, String(calls));
    const { queue, waiters } = lockKeys("lock:", "n");
    const { tombstones } = await tombstonesIn(server, waiters);
    // The first ask had no time limit, so its tombstone lasts longer.
    const endMs = Math.max(...tombstones.sort((a, b) => a - b).slice(0, -1));
    await waitUntil(
      "all others are over",
      async () => (await tombstonesIn(server, waiters)).nowMs > endMs,
    );
    const sweptMs = (await tombstonesIn(server, waiters)).nowMs;
    await cycles(5); // each leave sweeps some
    const left = (await tombstonesIn(server, waiters)).tombstones;
    assert(
      left.every((tombstoneMs) => tombstoneMs >= sweptMs) && left.length <= 5 + 1,
      String(left),
    );
    assertEquals(await server.command("ZCARD", queue), left.length);
    assertEquals(await server.command("HLEN", waiters), left.length);
  } finally {
    await close();
  }
});

Deno.test("RedisLock.tryAcquire() costs one more command when the client reports no events and another owner holds the lock", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("deno-redis-like-eventless", server.url);
  try {
    await using lock = new RedisLock(client, { ttlMs: LONG_TTL_MS }); // no renewal is counted
    await lock.acquire("n");
    const before = await scriptCalls(server);
    for (let i = 0; i < 20; i++) assertEquals(await lock.tryAcquire("n"), null);
    await lock[Symbol.asyncDispose](); // waits until each has left, and releases the lease
    const calls = await scriptCalls(server) - before - 1;
    // An ask that a stalled machine delays by over a second is sent again.
    assert(calls >= 2 * 20 && calls < 2.5 * 20, String(calls));
  } finally {
    await close();
  }
});

Deno.test("denoRedis() counts a reconnect that only 'connect' and 'ready' report", async () => {
  await using server = await startRedis();
  // As deno-redis 0.37 does: no "reconnecting" before it repeats a command.
  const client = denoRedis(async () => {
    const connection = await connectLike(server.url);
    return {
      ...connection,
      addEventListener(event, listener) {
        if (event !== "reconnecting") connection.addEventListener!(event, listener);
      },
    };
  });
  await client.send("PING", [], "");
  const { epoch } = client;
  await server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
  await client.send("PING", [], "");
  assert(client.epoch !== epoch);
  await client.close!();
});

Deno.test("denoRedis() sends commands together that come while others are unanswered, and rejects them when it drops the connection", async () => {
  const flushes: { readonly commands: string[]; answer(): void }[] = [];
  let opened = 0;
  const client = denoRedis(() => {
    opened++;
    return Promise.resolve({
      pipeline() {
        const commands: string[] = [];
        return {
          sendCommand: (command: string) => Promise.resolve(commands.push(command)),
          flush: () =>
            new Promise<string[]>((resolve) => {
              flushes.push({ commands, answer: () => resolve(commands) });
            }),
        };
      },
      subscribe: () => Promise.reject(new Error("unused")),
      close: () => {},
    });
  });
  const send = async (...commands: string[]) => {
    const replies = [];
    for (const command of commands) {
      replies.push(client.send(command, [], ""));
      await settle();
    }
    return { replies: Promise.allSettled(replies) };
  };
  const first = await send("a", "b", "c");
  assertEquals(flushes.map(({ commands }) => commands), [["a"]]);
  flushes[0]!.answer();
  await settle();
  const second = await send("d");
  assertEquals(flushes.map(({ commands }) => commands), [["a"], ["b", "c"]]);
  client.reset!();
  const outcomes = [...await first.replies, ...await second.replies].map(({ status }) => status);
  assertEquals(outcomes, ["fulfilled", "rejected", "rejected", "rejected"]);
  await settle();
  assertEquals([flushes.length, opened], [2, 1]);
  flushes[1]!.answer();
  await client.close!();
});

Deno.test("denoRedis() rejects the commands when its factory throws, and calls it again for later ones", async () => {
  let isBroken = true;
  await using server = await startRedis();
  const client = denoRedis(() => {
    if (isBroken) throw new TypeError("a bug in a program");
    return connectLike(server.url);
  });
  const pings = [1, 2].map(() => within("it is answered", client.send("PING", [], "")));
  for (const ping of pings) await assertRejects(() => ping, TypeError, "a bug in a program");
  assertEquals((client.connectionError as Error).name, "TypeError");
  isBroken = false;
  assertEquals(await client.send("PING", [], ""), "PONG");
  assertEquals(client.connectionError, undefined);
  await client.close!();
});

/** A connection whose replies, messages and events come from the test. */
function fakeConnection() {
  const events = new EventTarget();
  const log: string[] = [];
  const flushes: PromiseWithResolvers<unknown[]>[] = [];
  let next = Promise.withResolvers<string | null>();
  const connection: DenoRedisConnection = {
    pipeline: () => ({
      sendCommand: () => Promise.resolve(),
      flush() {
        const flush = Promise.withResolvers<unknown[]>();
        flushes.push(flush);
        return flush.promise;
      },
    }),
    subscribe(channel) {
      log.push(`subscribe ${channel}`);
      return Promise.resolve({
        async *receive() {
          for (let message = await next.promise; message !== null; message = await next.promise) {
            next = Promise.withResolvers<string | null>();
            yield { message };
          }
        },
      });
    },
    close() {
      log.push("close");
      next.resolve(null);
    },
    addEventListener: (event, listener) =>
      events.addEventListener(event, (told) => listener(told as CustomEvent)),
  };
  const emit = (event: string, detail?: unknown) =>
    void events.dispatchEvent(new CustomEvent(event, { detail }));
  const tell = async (message: string | null) => {
    next.resolve(message);
    await settle();
  };
  return { connection, emit, flushes, log, tell };
}

Deno.test("denoRedis() subscribes until its connection ends, tells of each reconnect, and closes a connection that comes too late", async () => {
  const [ending, aborted, late] = [fakeConnection(), fakeConnection(), fakeConnection()];
  const opening = Promise.withResolvers<DenoRedisConnection>();
  const connections = [
    Promise.resolve(ending.connection),
    Promise.resolve(aborted.connection),
    opening.promise,
  ];
  const client = denoRedis(() => connections.shift()!);
  const subscribe = (log: string[]) => {
    const abort = new AbortController();
    const onMessage = (message: string) => void log.push(message);
    const onSubscribed = () => void log.push("subscribed");
    return { abort, ended: client.subscribe!("c", onMessage, onSubscribed, abort.signal) };
  };

  const first = subscribe(ending.log);
  await settle();
  await ending.tell("hello");
  ending.emit("ready");
  assertEquals(ending.log.splice(0), ["subscribe c", "subscribed", "hello", "subscribed"]);
  await ending.tell(null);
  await within("it ends", first.ended);
  assertEquals(ending.log, ["close"]);

  const second = subscribe(aborted.log);
  await settle();
  second.abort.abort();
  await within("it ends", second.ended);
  assertEquals(aborted.log.slice(0, 3), ["subscribe c", "subscribed", "close"]);

  const third = subscribe(late.log);
  third.abort.abort(new Error("no longer wanted"));
  opening.resolve(late.connection);
  await assertRejects(() => within("it ends", third.ended), Error, "no longer wanted");
  assertEquals(late.log, ["close"]);
});

Deno.test("denoRedis() rejects commands by the last error of their connection when it drops it, and counts each connection", async () => {
  const fakes: ReturnType<typeof fakeConnection>[] = [];
  const client = denoRedis(() => {
    const fake = fakeConnection();
    fakes.push(fake);
    return Promise.resolve(fake.connection);
  });
  const epochs = [client.epoch];
  const send = async () => {
    const reply = client.send("PING", [], "").catch((error) => error);
    await settle();
    epochs.push(client.epoch);
    return { fake: fakes.at(-1)!, reply };
  };
  const reset = () => {
    client.reset!();
    epochs.push(client.epoch);
  };

  const silent = await send();
  reset();
  assertEquals((await silent.reply as { code?: unknown }).code, "ETIMEDOUT");
  const failed = await send();
  const refused = new Error("refused");
  failed.fake.emit("error", { error: refused });
  assertEquals(client.connectionError, refused);
  reset();
  assert(await failed.reply === refused);
  const last = await send();
  failed.fake.emit("error", { error: new Error("of an earlier connection") });
  assertEquals(client.connectionError, refused);
  for (const event of ["connect", "ready", "reconnecting", "close", "end"] as const) {
    last.fake.emit(event);
    epochs.push(client.epoch);
  }
  assertEquals(new Set(epochs).size, epochs.length);
  const others = ["GET", "SET"].map((command) => client.send(command, [], "").catch((e) => e));
  last.fake.flushes[0]!.resolve(["PONG"]);
  assertEquals([await last.reply, client.connectionError], ["PONG", undefined]);
  await settle();
  last.fake.flushes[1]!.resolve([new Error("-NOPERM no right"), new Error("another text")]);
  const messages = (await Promise.all(others)).map((error) => (error as Error).message);
  assertEquals(messages, ["NOPERM no right", "another text"]);
  for (const { fake } of [silent, failed]) fake.flushes[0]!.resolve([]);
  await client.close!();
  assertEquals(fakes.map(({ log }) => log.includes("close")), [true, true, true]);
});
