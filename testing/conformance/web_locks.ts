/**
 * Behaviours: `webLocks()`, which is what `navigator.locks` is. The page docs/web-locks.md maps the subtests of
 * the public Web Platform Tests to them.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { LeaseLostError } from "../../mod.ts";
import { type WebLock, type WebLocks, webLocks } from "../../web_locks/mod.ts";
import { waitUntil } from "../servers/wait.ts";
import { ENDING_TTL_MS } from "../time.ts";
import { within } from "./bounds.ts";
import { behaviour, type Harness } from "./harness.ts";

const SHARED = { mode: "shared" } as const;
/** What a browser takes, and TypeScript does not. */
// deno-lint-ignore no-explicit-any -- bad arguments
type AnyRequest = (...args: any[]) => Promise<any>;

/** Requests a lock, and holds it until `release` is called. */
function hold(locks: WebLocks, name: string, options = {}, onBegin = () => {}) {
  const gate = Promise.withResolvers<void>();
  const inside = Promise.withResolvers<WebLock>();
  const ended = locks.request(name, options, (lock) => {
    onBegin();
    inside.resolve(lock);
    return gate.promise;
  });
  ended.catch(inside.reject);
  inside.promise.catch(() => {}); // whoever awaits it learns of the error
  const release = async () => {
    gate.resolve();
    await ended;
  };
  return { inside: inside.promise, ended, release };
}

async function refusal(call: Promise<unknown>): Promise<string> {
  return (await assertRejects(() => call, DOMException)).name;
}

/** Why a call rejected. The reason may be a thenable. */
async function reasonOf(call: Promise<unknown>): Promise<{ reason: unknown }> {
  return await call.then(() => {
    throw new Error("the call should reject");
  }, (reason) => ({ reason }));
}

/** Registers the behaviours. */
export function webLocksSuite(harness: Harness): void {
  settling(harness);
  refusals(harness);
  waiting(harness);
  signals(harness);
  stealing(harness);
  querying(harness);
}

function settling(harness: Harness): void {
  behaviour(
    harness,
    "webLocks().request() passes a lock to its callback, and settles as that does, after the release",
    async (arena) => {
      const lock = await arena.client();
      const locks = webLocks(lock);
      const result = await locks.request("n", ({ name, mode, lease }) => {
        lease.throwIfLost();
        return [name, mode];
      });
      assertEquals(result, ["n", "exclusive"]);
      let isOver = false;
      const held = hold(locks, "n");
      held.ended.then(() => isOver = true);
      await held.inside;
      assertEquals([await lock.tryAcquire("n"), isOver], [null, false]);
      await held.release();
      let isThenCalled = false;
      const error = { then: () => isThenCalled = true };
      for (
        const callback of [() => {
          throw error;
        }, () => Promise.reject(error)]
      ) {
        const thrown = locks.request("n", callback);
        assert(Promise.resolve(thrown) === thrown);
        assert((await reasonOf(thrown)).reason === error);
      }
      assert(!isThenCalled);
      const lease = await lock.tryAcquire("n");
      assertEquals(await lease?.release(), true);
    },
  );

  behaviour(
    harness,
    "webLocks().request() takes every string as a name, and no two share a lock",
    async (arena) => {
      const lock = await arena.client();
      const locks = webLocks(lock);
      const names = ["", "a\0b", "\uD800", "\uDC00", "\uDC00\uD800", "\uFFFF", "\uFFFD", "x-y"];
      const held = names.map((name) => hold(locks, name));
      assertEquals(
        await Promise.all(held.map(async ({ inside }) => (await inside).name)),
        names,
      );
      for (const name of names) {
        assertEquals((await locks.query(name)).held.map((info) => info.name), [name]);
      }
      assertEquals(await lock.tryAcquire("x-y"), null); // the same lock as that of other calls
      for (const { release } of held) await release();
    },
  );
}

function refusals(harness: Harness): void {
  const { shared, steal } = harness.capabilities;

  behaviour(
    harness,
    "webLocks().request() rejects with a TypeError when an argument is missing or has a wrong type",
    async (arena) => {
      const locks = webLocks(await arena.client());
      const request = locks.request as AnyRequest;
      const never = () => assert(false, "the callback should not run");
      const noCallbacks = [undefined, null, 123, "abc", [], {}, Promise.resolve()];
      const noSignals = ["string", 12.34, false, {}, Symbol(), () => {}, globalThis, null];
      const bad: unknown[][] = [
        [],
        ["n"],
        [Symbol(), never],
        ["n", 7, never],
        ...noCallbacks.flatMap((value) => [["n", value], ["n", {}, value]]),
        ...["foo", null, 1].map((mode) => ["n", { mode }, never]),
        ...noSignals.map((signal) => ["n", { signal }, never]),
      ];
      for (const args of bad) await assertRejects(() => request(...args), TypeError);
      assertEquals(await arena.residue(), []);
    },
  );

  behaviour(
    harness,
    "webLocks().request() refuses what the Web Locks API refuses, converts the rest, and ignores unknown options",
    async (arena) => {
      const locks = webLocks(await arena.client());
      const request = locks.request as AnyRequest;
      const { signal } = new AbortController();
      const refused: unknown[][] = [
        ...["-", "-n"].map((name) => [name, {}]),
        ...[{ steal: true, ifAvailable: true }, { steal: true, mode: "shared" }],
        ...[{ steal: true, signal }, { ifAvailable: 1, signal }],
        ...steal ? [] : [{ steal: true }],
        ...shared ? [] : [SHARED],
      ].map((each) => Array.isArray(each) ? each : ["n", each]);
      for (const args of refused) {
        assertEquals(await refusal(request(...args, () => {})), "NotSupportedError");
      }
      const mode = { toString: () => "exclusive" };
      const options = { mode, ttlMs: "no number", waitMs: -1, steal: 0, ifAvailable: "" };
      assertEquals(await request(42, options, ({ name }: WebLock) => name), "42");
      for (const none of [undefined, null, () => {}]) {
        assertEquals(await request("n", none, () => 7), 7);
      }
    },
  );
}

function waiting(harness: Harness): void {
  const { shared, fifo } = harness.capabilities;

  behaviour(
    harness,
    "webLocks().request() with ifAvailable passes null when the lock is not free",
    async (arena) => {
      const locks = webLocks(await arena.client());
      const IF_AVAILABLE = { ifAvailable: true } as const;
      assertEquals(await locks.request("n", IF_AVAILABLE, (lock) => lock?.name), "n");
      const held = hold(locks, "n");
      await held.inside;
      assertEquals(await locks.request("n", IF_AVAILABLE, (lock) => [lock]), [null]);
      const error = { name: "test" };
      const thrown = locks.request("n", IF_AVAILABLE, () => Promise.reject(error));
      assert((await reasonOf(thrown)).reason === error);
      assertEquals(await locks.request("other", IF_AVAILABLE, (lock) => lock?.name), "other");
      await held.release();
      assertEquals(await locks.request("n", IF_AVAILABLE, (lock) => lock?.name), "n");
    },
  );

  behaviour(
    harness,
    "webLocks().request() grants in the order of the requests, shared ones together",
    async (arena) => {
      const locks = webLocks(await arena.client());
      const order: string[] = [];
      const ask = (name: string, label: string, options = {}) =>
        locks.request(name, options, () => void order.push(label));
      await Promise.all([ask("n", "1"), ask("n", "2"), ask("n", "3")]);
      assertEquals(order.splice(0), ["1", "2", "3"]);
      if (!shared) return;
      const readers = [hold(locks, "n", SHARED), hold(locks, "n", SHARED)];
      const writer = ask("n", "writer");
      const late = ask("n", "late reader", SHARED);
      await Promise.all(readers.map(({ inside }) => inside));
      await ask("other", "other");
      assertEquals(await locks.request("n", { ...SHARED, ifAvailable: true }, (lock) => [lock]), [
        null,
      ]);
      await Promise.all(readers.map(({ release }) => release()));
      await Promise.all([writer, late]);
      assertEquals(order, ["other", "writer", "late reader"]);
    },
    fifo !== "none",
  );

  behaviour(
    harness,
    "webLocks().request() lets callbacks of different names begin in the order of the requests",
    async (arena) => {
      const locks = webLocks(await arena.client({ onWarning: () => {} }));
      const first = ["free", "waits", ...shared ? ["0", "1", "2"] : [], "free"].join();
      await waitUntil("they begin in order", async () => {
        const [begun, late] = await begunInOrder(locks, shared);
        return begun!.join() === first && late!.join() === (shared ? "waits" : "");
      });
    },
    fifo !== "none",
  );
}

/** One attempt: on a slow network, grants are not held back until all answers have come. */
async function begunInOrder(locks: WebLocks, isShared: boolean): Promise<string[][]> {
  const begun: string[] = [];
  const begin = (what: string) => () => void begun.push(what);
  let inner: Promise<unknown> = Promise.resolve();
  await locks.request("a", () => {
    inner = Promise.all([locks.request("a", begin("waits")), locks.request("b", begin("free"))]);
  });
  await inner;
  const shared = Array.from(
    { length: isShared ? 3 : 0 },
    (_, i) => hold(locks, "c", SHARED, () => begun.push(`${i}`)),
  );
  const waits = isShared ? locks.request("c", begin("waits")) : null;
  await locks.request("d", begin("free"));
  const results = [begun.splice(0)];
  for (const { release } of shared) await release();
  await waits;
  return [...results, begun];
}

function signals(harness: Harness): void {
  behaviour(
    harness,
    "webLocks().request() ends by its signal as long as it waits, and the next one gets the lock",
    async (arena) => {
      const locks = webLocks(await arena.client());
      const never = () => assert(false, "the callback should not run");
      await assertRejects(
        () => locks.request("n", { signal: AbortSignal.abort() }, never),
        DOMException,
      );
      const soon = new AbortController();
      const inTick = locks.request("n", { signal: soon.signal }, never);
      soon.abort("my cat handled it");
      assertEquals((await reasonOf(inTick)).reason, "my cat handled it");

      const late = new AbortController();
      const held = hold(locks, "n", { signal: late.signal });
      await held.inside;
      late.abort();
      const waits = new AbortController();
      const ended = locks.request("n", { signal: waits.signal }, never);
      const next = locks.request("n", () => "next");
      assertEquals((await locks.query("n")).pending.length, 2);
      waits.abort();
      assert((await reasonOf(ended)).reason === waits.signal.reason);
      await held.release();
      assertEquals(await next, "next");
    },
  );
}

function stealing(harness: Harness): void {
  const { steal } = harness.capabilities;

  behaviour(
    harness,
    "webLocks().request() rejects with an AbortError when its lock is stolen, also if its callback never settles",
    async (arena) => {
      const locks = webLocks(await arena.client());
      const never = Promise.withResolvers<never>().promise;
      const inside = Promise.withResolvers<void>();
      const victim = locks.request("n", () => {
        inside.resolve();
        return never;
      });
      await inside.promise;
      const order: string[] = [];
      const waiter = locks.request("n", () => void order.push("waiter"));
      const thief = refusal(locks.request("n", { steal: true }, () => never));
      const error = await assertRejects(() => within("the victim ends", victim), DOMException);
      assertEquals(error.name, "AbortError");
      assert(error.cause instanceof LeaseLostError);
      await locks.request("n", { steal: true }, () => void order.push("second thief"));
      assertEquals(await within("the thief ends", thief), "AbortError");
      await waiter;
      assertEquals(order, ["second thief", "waiter"]);
    },
    steal,
  );

  behaviour(
    harness,
    "webLocks().request() rejects with an AbortError when its lease is lost, but passes other errors on",
    async (arena) => {
      const locks = webLocks(await arena.client({ ttlMs: ENDING_TTL_MS }));
      const held = hold(locks, "n");
      const { lease } = await held.inside;
      const ended = refusal(held.ended);
      await arena.lose(lease);
      assertEquals(await within("the loss is seen", ended), "AbortError");
      const own = new LeaseLostError("another", "expired");
      const thrown = locks.request("m", () => Promise.reject(own));
      assert((await reasonOf(thrown)).reason === own);
    },
  );
}

function querying(harness: Harness): void {
  const { shared } = harness.capabilities;

  behaviour(
    harness,
    "webLocks().query() shows the requests that were made before, each with its mode and client",
    async (arena) => {
      const lock = await arena.client();
      const [one, other] = [
        webLocks(lock, { clientId: "one" }),
        webLocks(lock),
      ];
      const options = shared ? SHARED : {};
      const mode = shared ? "shared" : "exclusive";
      const held = [hold(one, "n", options), ...shared ? [hold(other, "n", options)] : []];
      const waits = [hold(one, "n"), hold(one, "n", options)];
      const { held: holders, pending } = await one.query("n");
      const own = holders.filter(({ clientId }) => clientId === "one");
      assertEquals(own, [{ name: "n", mode, clientId: "one" }]);
      assertEquals(holders.map((info) => info.mode), held.map(() => mode));
      assertEquals(new Set(holders.map(({ clientId }) => clientId)).size, held.length);
      assertEquals(pending, [
        { name: "n", mode: "exclusive", clientId: "one" },
        { name: "n", mode, clientId: "one" },
      ]);
      for (const { release } of [...held, ...waits]) await release();
      await waitUntil("nobody holds or wants it", async () => {
        const { held, pending } = await one.query("n");
        return held.length + pending.length === 0;
      });
    },
  );
}
