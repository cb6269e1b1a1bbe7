/**
 * Several calls with the same owner id.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { LeaseLostError, LockError } from "../../mod.ts";
import type { RedisLock } from "../../redis/mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { Gate } from "../../testing/redis/gated_client.ts";
import { atOnce, play } from "../../testing/redis/race_stage.ts";
import { KEPT_TTL_MS, scaled } from "../../testing/time.ts";

const OWNER = { ownerId: "job-7" };
/** Shorter than a sixth of the TTL and than 2 s, after which the renewal would be sent again. */
const MAX_HOLD_MS = scaled(300);

Deno.test("Lease.release() that is retried keeps a later lease of the same owner id", () =>
  play(async ({ lock, gates }) => {
    const first = await lock.acquire("n", { ...OWNER, ttlMs: KEPT_TTL_MS });
    const gate = new Gate();
    gates.onRequest = gate.first("leave");
    const released = first.release();
    await gate.arrived;
    const second = await lock.acquire("n", OWNER);
    await waitUntil("it is tried again", () => {
      return gates.sent.filter(({ script }) => script === "leave").length > 1;
    });
    await released;
    gate.open();
    await second.renew();
    assertEquals(await second.release(), true);
  }));

Deno.test("RedisLock keeps a later lease of the same owner id when it cleans up after a lost one", () =>
  play(async ({ lock, other, gates }) => {
    const first = await lock.acquire("n", {
      ...OWNER,
      ttlMs: KEPT_TTL_MS,
      maxHoldMs: MAX_HOLD_MS,
    });
    const gate = new Gate();
    gates.onReply = gate.first("renew");
    const renewed = assertRejects(() => first.renew(), LeaseLostError);
    await within("the renewal is sent", gate.arrived);
    await waitUntil("it was held for too long", () => first.remainingMs === 0);
    // The clean-up waits for the renewal, but only for a limited time. A lease of the same instance needs none.
    const second = await other.acquire("n", OWNER);
    await waitUntil(
      "the clean-up is sent",
      () => gates.sent.some(({ script }) => script === "leave"),
    );
    gate.open();
    await renewed;
    await second.renew();
    assertEquals(await second.release(), true);
  }));

/** Each way to ask under the owner id. */
const CALLS: Record<string, (lock: RedisLock) => Promise<unknown>> = {
  "acquire()": (lock) => lock.acquire("n", OWNER),
  "acquire() with waitMs": (lock) => lock.acquire("n", { ...OWNER, waitMs: 60_000 }),
  "tryAcquire()": (lock) => lock.tryAcquire("n", OWNER),
  "tryAcquire() with waitMs": (lock) => lock.tryAcquire("n", { ...OWNER, waitMs: 60_000 }),
  "request()": (lock) => lock.request("n", OWNER, () => {}),
  "request() with ifAvailable": (lock) =>
    lock.request("n", { ...OWNER, ifAvailable: true }, () => {}),
  "request() with steal": (lock) =>
    lock.request("n", { ...OWNER, steal: true } as { steal: true }, () => {}),
};

for (const [title, call] of Object.entries(CALLS)) {
  Deno.test(`RedisLock.${title} under an owner id rejects before any I/O while another call under it asks or waits`, () =>
    play(async (stage) => {
      const { lock, other, gates } = stage;
      const held = await other.acquire("n");
      const ask = new Gate();
      gates.onRequest = ask.first("ask");
      const waiting = lock.acquire("n", OWNER);
      waiting.catch(() => {}); // it is awaited later
      await ask.arrived;
      const sent = gates.sent.length;
      const refused = () =>
        assertRejects(() => call(lock), LockError, "another call under it asks");
      const error = await refused();
      assertEquals([error.code, error.lockName, gates.sent.length], ["ERR_LOCK", "n", sent]);
      assert(!error.message.includes(OWNER.ownerId), "the owner id is a secret");
      ask.open();
      await waitUntil("it waits", async () => await stage.waiting() === 1);
      await refused();
      await held.release();
      const lease = await atOnce("the first call is granted", waiting);
      assertEquals(await lease.release(), true);
    }));
}

Deno.test("RedisLock calls with different owner ids, or for different locks, ask at the same time", () =>
  play(async ({ lock, gates }) => {
    const gate = new Gate();
    gates.onRequest = gate.first("ask");
    const calls = [
      lock.tryAcquire("n", OWNER),
      lock.tryAcquire("m", OWNER),
      lock.tryAcquire("m", { ownerId: "job-8" }),
    ];
    await gate.arrived;
    assertEquals(gates.sent.map(({ script }) => script), ["ask", "ask", "ask"]);
    gate.open();
    const leases = await Promise.all(calls);
    assertEquals(leases.map((lease) => lease !== null), [true, true, false]);
    for (const lease of leases) await lease?.release();
  }));

Deno.test("RedisLock.acquire() under the owner id of an aborted call waits for its clean-up, then in the queue", () =>
  play(async (stage) => {
    const { lock, other, gates } = stage;
    const held = await other.acquire("n");
    const abort = new AbortController();
    const first = assertRejects(() => lock.acquire("n", { ...OWNER, signal: abort.signal }));
    await waitUntil("it waits", async () => await stage.waiting() === 1);
    const cleanUp = new Gate();
    gates.onRequest = cleanUp.first("leave");
    abort.abort();
    await first;
    await cleanUp.arrived;
    const second = lock.acquire("n", OWNER);
    await other.query("n");
    assertEquals(gates.sent.at(-1)!.script, "leave");
    cleanUp.open();
    await waitUntil("the second one has asked", () => gates.sent.at(-1)!.script === "ask");
    await waitUntil("only the second one waits", async () => await stage.waiting() === 1);
    await held.release();
    const lease = await atOnce("it is granted", second);
    assertEquals(await lease.release(), true);
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock.acquire() under the owner id of a call that was aborted in the same instant waits for the lock", () =>
  play(async (stage) => {
    const { lock, other } = stage;
    const held = await other.acquire("n");
    const abort = new AbortController();
    const first = assertRejects(
      () => lock.acquire("n", { ...OWNER, signal: abort.signal }),
      DOMException,
    );
    await waitUntil("it waits", async () => await stage.waiting() === 1);
    abort.abort();
    const second = lock.acquire("n", OWNER);
    second.catch(() => {}); // it is awaited later
    await first;
    await held.release();
    const lease = await atOnce("it is granted", second);
    assertEquals(await lease.release(), true);
  }));

Deno.test("RedisLock.acquire() rejects with the reason of its signal when attach() is called in the same instant", () =>
  play(async (stage) => {
    const { lock, other } = stage;
    await using _held = await other.acquire("n");
    const abort = new AbortController();
    const waiting = assertRejects(
      () => lock.acquire("n", { ...OWNER, signal: abort.signal }),
      DOMException,
    );
    await waitUntil("it waits", async () => await stage.waiting() === 1);
    abort.abort();
    const attached = lock.attach("n", OWNER.ownerId);
    await waiting;
    assertEquals(await attached, null);
    assertEquals(await stage.waiting(), 0);
  }));

Deno.test("RedisLock.attach() under one owner id twice at the same time: the second one takes over from the first", () =>
  play(async ({ lock, gates }) => {
    await lock.acquire("n", OWNER);
    gates.sent.length = 0;
    const gate = new Gate();
    gates.onRequest = gate.first("ask");
    const both = Promise.all([
      lock.attach("n", OWNER.ownerId),
      lock.attach("n", OWNER.ownerId),
    ]);
    await gate.arrived;
    await lock.query("n");
    assertEquals(gates.sent.map(({ script }) => script).filter((it) => it === "ask"), ["ask"]);
    gate.open();
    const [one, two] = await both;
    assert(one !== null && two !== null && two.fencingToken > one.fencingToken);
    assert(!one.isHeld);
    assertEquals(await two.release(), true);
  }));

for (const outlivesDisposal of [true, false]) {
  const why = outlivesDisposal ? "outlives a disposal" : "is kept at a disposal";
  Deno.test(`RedisLock does not free the lock of a lease that ${why} when it cleans up after a call under its owner id`, () =>
    play(async ({ lock, other, gates, holder }) => {
      await lock.acquire("n", { ...OWNER, outlivesDisposal });
      const before = await holder();
      const reply = new Gate();
      gates.onReply = reply.first("ask");
      const ended = assertRejects(() => lock.acquire("n", OWNER), DOMException, "disposed");
      await reply.arrived; // the server has given the lock to the second call
      assert(await holder() !== before);
      const disposed = lock[Symbol.asyncDispose]();
      await ended;
      reply.open();
      await disposed;
      assertEquals(await other.tryAcquire("n"), null);
      const taken = await other.attach("n", OWNER.ownerId);
      assertEquals(await taken?.release(), true);
    }));
}
