/** The calls of the package redlock, beside the package itself. */
import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { Redis } from "ioredis";
import RealRedlock from "redlock";
import Redlock4 from "redlock-4";
import { acquireAll, LockSetupError } from "../../mod.ts";
import { ioredis } from "../../redis/clients/ioredis.ts";
import { type RedisClient, RedisLock } from "../../redis/mod.ts";
import { OWN_NONCE, type OwnNonceOptions } from "../../redis/options.ts";
import { LEAVE } from "../../redis/protocol/scripts.ts";
import { ExecutionError, Lock, Redlock, ResourceLockedError } from "../../redlock/mod.ts";
import { block, within } from "../../testing/conformance/bounds.ts";
import { say } from "../../testing/processes/figures.ts";
import { untilShown, watchStalls } from "../../testing/processes/stalls.ts";
import { noteOpen } from "../../testing/redis/client_timers.ts";
import { endIoredis } from "../../testing/redis/clients.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import {
  ENDING_TTL_MS,
  FAULT_TTL_MS,
  KEPT_TTL_MS,
  LONG_TTL_MS,
  RENEWED_TTL_MS,
  scaled,
} from "../../testing/time.ts";

const SECTIONS = Deno.env.get("HOLDFAST_SOAK") ? 2_000 : 60;
const WAIT = { retryCount: -1 };

/** Runs a test with a client, and managers on it, all of which end. */
async function withClient(
  test: (client: Redis, redlock: Redlock, server: RedisServer) => Promise<void>,
  settings = {},
): Promise<void> {
  await using server = await startRedis();
  const client = new Redis(server.url);
  const redlock = new Redlock([client], settings);
  const close = noteOpen(async () => {
    await redlock.quit().catch(() => {}); // a test may have closed it
    await endIoredis(client);
  });
  try {
    await test(client, redlock, server);
  } finally {
    await close();
  }
}

/** The error, and that of its votes. */
async function votes(call: () => Promise<unknown>): Promise<[ExecutionError, Error]> {
  const error = await assertRejects(call, ExecutionError, "unable to achieve a quorum");
  const [stats] = await Promise.all(error.attempts);
  const [vote] = stats!.votesAgainst.values();
  return [error, vote!];
}

Deno.test("Redlock.acquire() sets the keys of redlock to the value of the lock", () =>
  withClient(async (client, redlock) => {
    const startMs = Date.now();
    const lock = await redlock.acquire(["b", "a"], LONG_TTL_MS);
    assertInstanceOf(lock, Redlock.Lock);
    assertEquals([await client.get("a"), await client.get("b")], [lock.value, lock.value]);
    assertEquals([lock.resources, lock.resource], [["b", "a"], ["b", "a"]]);
    assert(lock.expiration > startMs && lock.expiration <= startMs + LONG_TTL_MS + 1_000);
    const extended = await lock.extend(2 * LONG_TTL_MS);
    assertEquals([lock.expiration, extended.value], [0, lock.value]);
    assert(await client.pttl("a") > LONG_TTL_MS);
    await assertRejects(() => lock.extend(LONG_TTL_MS), ExecutionError, "already-expired");
    const { attempts } = await extended.release();
    assertEquals((await attempts[0]!).votesFor.size, 1);
    assertEquals(await client.exists("a", "b"), 0);
    await votes(() => extended.release());
  }));

Deno.test("Redlock.acquire() waits for as long as redlock would retry, then fails as redlock does", () =>
  withClient(async (_client, redlock) => {
    const errors: Error[] = [];
    redlock.on("error", (error) => errors.push(error));
    const lock = await redlock.acquire(["a"], LONG_TTL_MS);
    const [error, vote] = await votes(() =>
      redlock.acquire(["b", "a"], LONG_TTL_MS, { retryCount: 2, retryDelay: 10 })
    );
    assertEquals(error.attempts.length, 3);
    assertInstanceOf(error, Redlock.LockError);
    assertInstanceOf(vote, ResourceLockedError);
    assertEquals(errors, [vote]);
    const next = redlock.acquire(["b", "a"], LONG_TTL_MS, WAIT);
    await lock.release();
    await (await next).release();
  }));

Deno.test("Redlock.acquire() leaves its lock to expire, and quit() releases what is held", () =>
  withClient(async (client, redlock, server) => {
    const lock = await redlock.acquire("a", ENDING_TTL_MS);
    await waitUntil("it has expired", async () => await client.exists("a") === 0);
    assert(Date.now() >= lock.expiration);
    await votes(() => lock.release());
    await redlock.acquire("b", LONG_TTL_MS);
    const waiting = votes(() => redlock.acquire("b", LONG_TTL_MS, WAIT));
    await redlock.quit();
    const [, vote] = await waiting;
    assertEquals(vote.message, "Connection is closed.");
    assertEquals(await server.command("EXISTS", "b"), 0);
  }));

Deno.test("Redlock.using() extends the lock, and tells a loss by the signal and the error", () =>
  withClient(async (client, redlock) => {
    const settings = { automaticExtensionThreshold: 100 };
    const value = await redlock.using(["a"], KEPT_TTL_MS, settings, async (signal, { lock }) => {
      let leftMs = Infinity;
      await waitUntil("it is extended", async () => {
        const beforeMs = leftMs;
        leftMs = await client.pttl("a");
        return leftMs > beforeMs;
      });
      assertEquals([signal.aborted, signal.error], [false, undefined]);
      assertEquals(await client.get("a"), lock.value);
      return "done";
    });
    assertEquals([value, await client.exists("a")], ["done", 0]);
    let reason: unknown;
    const [, vote] = await votes(() =>
      redlock.using(["a"], FAULT_TTL_MS, async (signal) => {
        await client.del("a");
        await waitUntil("the signal has aborted", () => signal.aborted);
        reason = signal.error;
      })
    );
    assertInstanceOf(vote, ResourceLockedError);
    assertStringIncludes(String(reason), "Lost the lease");
    await assertRejects(
      () => redlock.using(["a"], LONG_TTL_MS, () => Promise.reject(new RangeError("routine"))),
      RangeError,
      "routine",
    );
    await assertRejects(() => redlock.using(["a"], 500, async () => {}), Error, "at least 100ms");
  }));

Deno.test("the signal of Redlock.using() reads the clock when an event loop was blocked past the end", () =>
  withClient(async (_client, redlock) => {
    const settings = { automaticExtensionThreshold: 100 };
    await votes(() =>
      redlock.using(["a"], ENDING_TTL_MS, settings, async (signal) => {
        assertEquals([signal.aborted, signal.error], [false, undefined]);
        let isTold = false;
        signal.addEventListener("abort", () => isTold = signal.aborted);
        block(ENDING_TTL_MS + 10);
        assertEquals(signal.aborted, true); // no timer has run
        assertStringIncludes(String(signal.error), "Lost the lease");
        await waitUntil("the signal aborts, too", () => isTold);
        assertStringIncludes(String(signal.reason), "Lost the lease");
      })
    );
    const seen: unknown[] = [];
    const releasing = redlock.using(["a"], LONG_TTL_MS, async (signal, { lock }) => {
      await lock.release();
      seen.push(signal.aborted, signal.error);
    });
    await votes(() => releasing); // it is released twice
    assertEquals(seen, [false, undefined], "a release is no loss");
    const signal = await redlock.using(["a"], LONG_TTL_MS, (signal) => Promise.resolve(signal));
    assertEquals([signal.aborted, signal.error], [false, undefined]);
  }));

Deno.test("Redlock takes over a lock by its value, from another process", () =>
  withClient(async (client, redlock, server) => {
    const elsewhere = new Redis(server.url);
    const other = new Redlock([elsewhere]);
    const lock = await other.acquire(["a", "b"], LONG_TTL_MS);
    const known = new Lock(redlock, lock.resources, lock.value, [], lock.expiration);
    const extended = await known.extend(2 * LONG_TTL_MS);
    assertEquals(await client.get("a"), extended.value);
    await extended.release();
    assertEquals(await client.exists("a", "b"), 0);
    await votes(() => new Lock(redlock, ["a"], "of-another", [], Date.now() + 1_000).release());
    await other.quit();
  }));

Deno.test("Redlock extends and frees a lock that another process has extended by its value", () =>
  withClient(async (client, redlock, server) => {
    const elsewhere = new Redis(server.url);
    const other = new Redlock([elsewhere]);
    for (const names of [["a"], ["a", "b"]]) {
      const lock = await redlock.acquire(names, LONG_TTL_MS);
      const same = () => new Lock(other, names, lock.value, [], lock.expiration);
      await same().extend(2 * LONG_TTL_MS);
      const extended = await lock.extend(3 * LONG_TTL_MS);
      assert(await client.pttl("a") > 2 * LONG_TTL_MS);
      await new Lock(other, names, extended.value, [], extended.expiration).extend(4 * LONG_TTL_MS);
      await extended.release();
      assertEquals(await client.exists("a", "b"), 0);
    }
    await other.quit();
  }));

Deno.test("Redlock: many objects on one client share what they open, and its listeners", () =>
  withClient(async (client, redlock, server) => {
    const listeners = client.listenerCount("end");
    const channels = async () =>
      (await server.command("PUBSUB", "CHANNELS", "holdfast:*") as string[]).length;
    for (let i = 0; i < 5; i++) {
      const lock = await redlock.acquire(["a"], LONG_TTL_MS);
      const next = new Redlock([client]).acquire(["a"], LONG_TTL_MS, WAIT);
      await waitUntil("it has subscribed", async () => await channels() > 0);
      await lock.release();
      await (await next).release();
    }
    assertEquals([await channels(), client.listenerCount("end")], [1, listeners]);
  }));

Deno.test("Redlock.acquire() of several waits for longer than the duration", () =>
  withClient(async (client, redlock) => {
    await untilShown(async () => {
      using stalls = watchStalls();
      await client.set("b", "foreign", "PX", 2 * RENEWED_TTL_MS);
      const lock = await redlock.acquire(["a", "b"], RENEWED_TTL_MS, WAIT).catch((error) => {
        if (stalls.longestMs > RENEWED_TTL_MS / 4) return null; // "a" may have ended meanwhile
        throw error;
      });
      if (lock === null) return "stalled";
      await lock.release();
      return "shown";
    });
  }));

Deno.test("Redlock: extend() and release() give up when Redis does not answer, and say so", async () => {
  await using server = await startRedis();
  await using proxy = startProxy(server);
  const client = new Redis(proxy.port, proxy.hostname).on("error", () => {});
  const redlock = new Redlock([client]);
  const close = noteOpen(async () => {
    await redlock.quit().catch(() => {});
    await endIoredis(client);
  });
  try {
    const first = await redlock.acquire("a", 10 * LONG_TTL_MS);
    const second = await redlock.acquire("b", 10 * LONG_TTL_MS);
    proxy.blackHole("to-server");
    for (const call of [() => first.extend(10 * LONG_TTL_MS), () => second.release()]) {
      const [, vote] = await within("it gives up", votes(call));
      assert(!(vote instanceof ResourceLockedError), vote.message);
    }
    proxy.heal();
    const isGone = async () => await server.command("EXISTS", "b") === 0;
    await waitUntil("the release goes on behind it", isGone);
  } finally {
    await close();
  }
});

Deno.test("Redlock has the calls of version 4, but no callbacks and no disposers", () =>
  withClient(async (client, redlock) => {
    const lock = await redlock.lock("a", LONG_TTL_MS);
    assertEquals(await client.get("a"), lock.value);
    await lock.unlock();
    await redlock.unlock(await redlock.acquire(["a"], LONG_TTL_MS));
    assertEquals(await client.exists("a"), 0);
    for (const acquire of ["acquireWithOptions", "lockWithOptions"] as const) {
      const held = await redlock[acquire](["a", "b"], LONG_TTL_MS, { retryCount: 1 });
      assertEquals(await client.mget("a", "b"), [held.value, held.value]);
      const busy = () => redlock[acquire]("a", LONG_TTL_MS, { retryCount: 0 });
      await assertRejects(busy, ExecutionError);
      await redlock.release(held);
    }
    const held = await redlock.lock("a", LONG_TTL_MS);
    let calls = 0;
    const callback = (() => calls++) as never;
    for (
      const call of [
        () => redlock.acquire("b", LONG_TTL_MS, callback),
        () => redlock.lock("b", LONG_TTL_MS, callback),
        () => redlock.acquireWithOptions("b", LONG_TTL_MS, {}, callback),
        () => redlock.lockWithOptions("b", LONG_TTL_MS, {}, callback),
        () => redlock.lockWithOptions("b", LONG_TTL_MS, callback),
        () => redlock.extend(held, LONG_TTL_MS, callback),
        () => redlock.release(held, callback),
        () => redlock.unlock(held, callback),
        () => redlock.quit(callback),
        () => held.extend(LONG_TTL_MS, callback),
        () => held.unlock(callback),
      ]
    ) {
      await assertRejects(call, TypeError, "callback");
    }
    assertEquals([await client.mget("a", "b"), calls], [[held.value, null], 0]);
    assertThrows(() => redlock.disposer(), TypeError, "using()");
  }));

Deno.test("Redlock refuses several servers, own scripts, a keyPrefix and bad arguments with the reason", () =>
  withClient(async (client, redlock, server) => {
    const other = new Redis(server.url, { lazyConnect: true });
    assertThrows(() => new Redlock([client, other]), TypeError, "fencing tokens");
    assertThrows(() => new Redlock([]), TypeError, "at least one");
    assertThrows(() => new Redlock([client], {}, { acquireScript: "" }), TypeError, "scripts");
    assertThrows(() => new Redlock([client], { lockScript: "" } as never), TypeError, "scripts");
    assertThrows(() => new Redlock([client], { db: 2 } as never), TypeError, "database 2");
    const prefixed = { keyPrefix: "app:" } as never;
    const advice = "write the prefix before each resource";
    assertThrows(() => new Redlock([client], prefixed), TypeError, advice);
    await assertRejects(() => redlock.acquire(["a"], LONG_TTL_MS, prefixed), TypeError, advice);
    const old = new Redis({ keyPrefix: "app:", lazyConnect: true });
    assertThrows(() => new Redlock([old]), LockSetupError, advice);
    await assertRejects(() => redlock.acquire(["a"], 1.5), Error, "must be an integer");
    await assertRejects(() => redlock.acquire(["a"], 2 ** 40), RangeError, "'ttlMs'");
    await assertRejects(() => redlock.acquire([], 1_000), RangeError, "entries");
    const unset = undefined as never; // redlock takes it, and null
    assertEquals(await redlock.using(["a"], LONG_TTL_MS, unset, () => Promise.resolve(1)), 1);
    await (await redlock.acquire(["a"], LONG_TTL_MS, null as never)).release();
  }));

Deno.test("Redlock takes the setting db of a fork if the client has selected that database", () =>
  withClient(async (client) => {
    await client.select(2);
    const redlock = new Redlock([client], { db: 2 } as never);
    const lock = await redlock.acquire(["a"], LONG_TTL_MS);
    assertEquals(await client.get("a"), lock.value);
    assertThrows(() => new Redlock([client], { db: 0 } as never), TypeError, "database 0");
    await lock.release();
  }));

Deno.test("Redlock.acquire() leaves no lock behind when the reply is lost", async () => {
  await using server = await startRedis();
  await using proxy = startProxy(server);
  const client = new Redis(proxy.port, proxy.hostname).on("error", () => {});
  const redlock = new Redlock([client], { retryCount: 1, retryDelay: scaled(100) });
  const close = noteOpen(async () => {
    await redlock.quit().catch(() => {});
    await endIoredis(client);
  });
  try {
    await client.ping(); // a connection must not be part of a bounded wait
    await (await redlock.acquire("warm", LONG_TTL_MS)).release();
    const clientErrors: unknown[] = [];
    redlock.on("clientError", (error) => clientErrors.push(error));
    proxy.blackHole("to-client");
    const [, vote] = await votes(() => redlock.acquire("a", LONG_TTL_MS));
    assert(!(vote instanceof ResourceLockedError));
    assertEquals(clientErrors, [vote]);
    proxy.heal();
    const startMs = performance.now();
    const isGone = async () => await server.command("EXISTS", "a") === 0;
    await waitUntil("the clean-up has freed the lock", isGone);
    assert(performance.now() - startMs < LONG_TTL_MS / 2, "not by its TTL");
  } finally {
    await close();
  }
});

Deno.test("Redlock, redlock 5 and redlock 4 on the same keys exclude each other", () =>
  withClient(async (client, redlock) => {
    const five = new RealRedlock([client as never], { retryCount: -1, retryDelay: 5 });
    const four = new Redlock4([client], { retryCount: -1, retryDelay: 5 });
    const all = { redlock, five, four };
    const sections = { redlock: 0, five: 0, four: 0 };
    let inside = 0;
    let overlaps = 0;
    const work = async (who: keyof typeof all) => {
      for (let i = 0; i < SECTIONS; i++) {
        const [first, second] = i % 2 === 0 ? ["a", "b"] : ["b", "a"];
        const lock = who === "redlock"
          ? await redlock.acquire([first!, second!], LONG_TTL_MS, WAIT)
          : await all[who].acquire([first!, second!], LONG_TTL_MS);
        if (++inside > 1) overlaps++;
        await client.ping(); // meanwhile another one could enter
        inside--;
        sections[who]++;
        await (who === "four" ? lock.unlock() : lock.release());
      }
    };
    const names = ["redlock", "five", "four"] as const;
    await Promise.all([...names, ...names].map(work));
    const each = 2 * SECTIONS;
    assertEquals([overlaps, sections], [0, { redlock: each, five: each, four: each }]);
    say(`Redlock beside redlock 5 and 4: ${3 * each} critical sections, ${overlaps} overlaps`);
  }));

Deno.test("the calls for several locks share a value: a late grant of one lock is not taken for another", () =>
  withClient(async (client, _redlock, server) => {
    const late: (() => void)[] = [];
    let isLate = true;
    const slow: RedisClient = Object.create(ioredis(client));
    slow.subscribe = (channel, onMessage, ...others) => {
      const onText = (text: string) => {
        if (isLate) late.push(() => onMessage(text));
        else onMessage(text);
      };
      return ioredis(client).subscribe!(channel, onText, ...others);
    };
    const options: OwnNonceOptions = { keyPrefix: "", [OWN_NONCE]: () => "0123456789abcdef" };
    await using locks = new RedisLock(slow, options);
    const elsewhere = new Redis(server.url);
    await using other = new RedisLock(ioredis(elsewhere), { keyPrefix: "" });
    const [a, b] = [await other.acquire("a"), await other.acquire("b")];
    let isGranted = false;
    const set = acquireAll(locks, ["a", "b"], { ownerId: "shared" });
    set.then(() => isGranted = true, () => {});
    const waits = (name: string) => async () => (await other.query(name)).waiterCount === 1;
    await waitUntil("it waits for a", waits("a"));
    await waitUntil("it has subscribed", async () => {
      return (await server.command("PUBSUB", "CHANNELS", "holdfast:*") as string[]).length > 0;
    });
    await a.release();
    await waitUntil("it waits for b", waits("b"));
    await waitUntil("the grant of a is late", () => late.length > 0);
    for (const deliver of late.splice(0)) deliver();
    await locks.query("b"); // after whatever the message has caused
    assertEquals([isGranted, b.isHeld], [false, true]);
    isLate = false;
    await b.release();
    const { leases } = await set;
    assert(leases.get("b")!.fencingToken > b.fencingToken);
    await (await set).release();
    await elsewhere.quit();
  }));

Deno.test("Redlock.extend() that fails extends no other lock, as redlock's does not", () =>
  withClient(async (client, redlock, server) => {
    const five = new RealRedlock([client as never], { retryCount: 0 });
    const elsewhere = new Redis(server.url);
    const other = new Redlock([elsewhere]);
    const managers = {
      "redlock 5": [five, five],
      "its own lock": [redlock, redlock],
      "that of another object": [redlock, other],
    } as const;
    for (const [whose, [extends_, acquires]] of Object.entries(managers)) {
      const { resources, value, expiration } = await acquires.acquire(["p", "q"], LONG_TTL_MS);
      await client.set("q", "stolen", "PX", LONG_TTL_MS);
      const lock = new Lock(redlock, [...resources], value, [], expiration);
      await assertRejects(() => (extends_ as Redlock).extend(lock, 10 * LONG_TTL_MS), Error);
      const leftMs = await client.pttl("p");
      assert(leftMs > 0 && leftMs <= LONG_TTL_MS, `${whose}: ${leftMs} ms`);
      for (const each of [extends_, acquires]) {
        await (each as Redlock).release(lock).catch(() => {});
      }
      assertEquals(await client.exists("p"), 0);
      await client.del("q");
    }
    await other.quit();
  }));

Deno.test("Redlock.extend() of a single lock is one request", () =>
  withClient(async (client, redlock) => {
    const lock = await redlock.acquire(["a"], LONG_TTL_MS);
    const scripts = async () =>
      /cmdstat_evalsha:calls=(\d+)/.exec(await client.info("commandstats"))![1];
    const before = Number(await scripts());
    const extended = await lock.extend(2 * LONG_TTL_MS);
    assertEquals(Number(await scripts()), before + 1);
    await extended.release();
  }));

Deno.test("Redlock.release() of another object does not prolong a lock that it fails to release", () =>
  withClient(async (client, redlock, server) => {
    await using proxy = startProxy(server);
    const elsewhere = new Redis(proxy.port, proxy.hostname).on("error", () => {});
    const another = new Redlock([elsewhere]);
    await untilShown(async () => {
      const { promise: isLost, resolve: lose } = Promise.withResolvers<void>();
      proxy.onRequest = (chunk) => {
        if (!new TextDecoder().decode(chunk).includes(LEAVE.sha1)) return "pass";
        lose();
        return "drop";
      };
      const lock = await redlock.acquire(["a"], FAULT_TTL_MS);
      const releasing = new Lock(another, ["a"], lock.value, [], lock.expiration).release();
      const over = releasing.catch(() => {}); // the lock may be over before it is found
      await within("its release is lost", Promise.race([isLost, over]));
      const leftMs = await client.pttl("a");
      assert(leftMs <= FAULT_TTL_MS, `${leftMs} ms`);
      proxy.onRequest = undefined;
      proxy.cutAll();
      await over;
      return leftMs > 0 ? "shown" : "stalled";
    });
    await another.quit();
  }));

Deno.test("Redlock extends and releases a lock of another object on a link that takes longer than a sixth of a second", () =>
  withClient(async (_client, redlock, server) => {
    await using proxy = startProxy(server);
    const elsewhere = new Redis(proxy.port, proxy.hostname).on("error", () => {});
    const another = new Redlock([elsewhere]);
    await elsewhere.ping();
    proxy.onReply = () => ({ delayMs: 300 });
    for (const names of [["a"], ["b", "c"]]) {
      const { value } = await redlock.acquire(names, LONG_TTL_MS);
      const lock = new Lock(another, names, value, [], Date.now() + LONG_TTL_MS);
      const extended = await within("it is extended", lock.extend(4 * LONG_TTL_MS));
      await within("it is released", extended.release());
      const next = await redlock.acquire(names, LONG_TTL_MS);
      await within("it is released", new Lock(another, names, next.value, [], 0).release());
      assertEquals(await server.command("EXISTS", ...names), 0);
    }
    proxy.onReply = undefined;
    await another.quit();
    await endIoredis(elsewhere);
  }));

Deno.test("Redlock.release() of another object frees what is left of a lock", () =>
  withClient(async (client, redlock, server) => {
    const lock = await redlock.acquire(["p", "q", "r"], LONG_TTL_MS);
    const elsewhere = new Redis(server.url);
    const another = new Redlock([elsewhere]);
    await client.del("q");
    const same = new Lock(another, lock.resources, lock.value, [], lock.expiration);
    await votes(() => same.release());
    assertEquals(await client.exists("p", "q", "r"), 0);
    await another.quit();
  }));

Deno.test("Redlock.acquire() of a lock that was waited for does not count the wait", () =>
  withClient(async (client, redlock) => {
    await client.set("a", "foreign", "PX", 2 * ENDING_TTL_MS);
    const lock = await redlock.acquire(["a"], scaled(1_800), WAIT);
    assert(lock.expiration > Date.now());
    await lock.release();
  }));
