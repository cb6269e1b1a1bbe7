/**
 * Each call with an owner id asks Redis whether the id holds the lock, and never this process's memory.
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { type Lease, LeaseLostError, LockError, LockUnavailableError } from "../../mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { type OwnerCall, OwnerCalls } from "../../redis/owner_calls.ts";
import { KEEP } from "../../redis/protocol/wire.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { settle } from "../../testing/core/fake_clock.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { Gate, type SentScript } from "../../testing/redis/gated_client.ts";
import { atOnce, play, type Stage } from "../../testing/redis/race_stage.ts";
import { provenInboxes } from "../../testing/redis/traces.ts";
import { granted, queued, ScriptedClient } from "../../testing/redis/scripted_client.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS } from "../../testing/time.ts";

const ID = "job-7";
const OWNER = { ownerId: ID };

function lossOf(lease: Lease): string {
  return assertThrows(() => lease.throwIfLost(), LeaseLostError).reason;
}

function scripts({ gates }: Stage): SentScript["script"][] {
  return gates.sent.filter(({ copy }) => copy[0] === "EVALSHA").map(({ script }) => script);
}

/** `other` attaches to the lock of `lock`, releases it, and takes it under an owner id of its own. */
async function loseToOther({ other }: Stage): Promise<Lease> {
  const attached = await other.attach("n", ID);
  assertEquals(await attached!.release(), true);
  return await other.acquire("n");
}

Deno.test("RedisLock.tryAcquire() with an owner id returns null when another instance has released its lock and a third call has it", () =>
  play(async (stage) => {
    const { lock } = stage;
    const first = await lock.acquire("n", OWNER);
    const held = await loseToOther(stage);
    assertEquals(await lock.tryAcquire("n", OWNER), null);
    assertEquals(lossOf(first), "stolen");
    held.throwIfLost();
    assertEquals(await held.release(), true);
    const next = await lock.tryAcquire("n", OWNER);
    assert(next !== null && next !== first && next.fencingToken > held.fencingToken);
    assertEquals(await next.release(), true);
  }));

Deno.test("RedisLock.acquire() with an owner id waits when another instance has released its lock and a third call has it", () =>
  play(async (stage) => {
    const { lock } = stage;
    const first = await lock.acquire("n", OWNER);
    const held = await loseToOther(stage);
    const waiting = lock.acquire("n", OWNER);
    await waitUntil("it waits", async () => await stage.waiting() === 1);
    assertEquals(lossOf(first), "stolen");
    await held.release();
    const next = await atOnce("it is granted", waiting);
    assert(next !== first);
    next.throwIfLost();
  }));

Deno.test("RedisLock.acquire() and tryAcquire() with an owner id take a lock over again that another instance has attached to", () =>
  play(async ({ lock, other }) => {
    const first = await lock.acquire("n", OWNER);
    const attached = await other.attach("n", ID);
    const second = await lock.tryAcquire("n", OWNER);
    assertEquals(lossOf(first), "stolen");
    assert(second !== null && second.fencingToken > attached!.fencingToken);
    assertEquals(await attached!.release(), false);
    second.throwIfLost();
    assertEquals(await second.release(), true);
  }));

Deno.test("RedisLock.acquire() and tryAcquire() with an owner id take over the lease of the instance by one ask, and prolong it", () =>
  play(async (stage) => {
    const { lock, server, gates } = stage;
    const first = await lock.acquire("n", { ...OWNER, autoRenew: false, ttlMs: 60_000 });
    const { signal } = first;
    const leftMs = () => server.command("PTTL", "lock:n").then(Number);
    gates.sent.length = 0;
    const second = await lock.tryAcquire("n", { ...OWNER, autoRenew: false, ttlMs: 300_000 });
    assertEquals(scripts(stage)[0], "ask");
    assert(second !== null && second.fencingToken > first.fencingToken);
    assert(signal.aborted, "no renewal is needed to find out");
    assertEquals(lossOf(first), "stolen");
    assert(await leftMs() > 200_000 && second.remainingMs > 200_000, "it is prolonged");
    const third = await lock.acquire("n", { ...OWNER, ttlMs: 60_000 });
    assertEquals(lossOf(second), "stolen");
    assert(await leftMs() > 200_000, "it is not shortened");
    assertEquals(await first.release(), false);
    assertEquals(await second.release(), false);
    third.throwIfLost();
    assertEquals(await third.release(), true);
  }, { commandTimeoutMs: CONDITION_BOUND_MS })); // else a late answer would be asked for again

Deno.test("RedisLock.attach() makes a new lease with a greater token and its TTL, and the earlier lease of the instance is lost at once", () =>
  play(async ({ lock, server }) => {
    const first = await lock.acquire("n", { ...OWNER, ttlMs: 60_000 });
    const { signal } = first;
    const second = await lock.attach("n", ID, { ttlMs: 300_000, autoRenew: false });
    assert(second !== null && second !== first && second.fencingToken > first.fencingToken);
    assert(signal.aborted, "no renewal is needed to find out");
    assertEquals(lossOf(first), "stolen");
    assert(Number(await server.command("PTTL", "lock:n")) > 200_000);
    assert(second.remainingMs > 200_000);
    assertEquals(await first.release(), false);
    assertEquals(await second.release(), true);
    assertEquals(await lock.attach("n", ID), null);
  }));

Deno.test("RedisLock.attach() returns null when the owner id has lost the lock, also in the instance that had it", () =>
  play(async (stage) => {
    const first = await stage.lock.acquire("n", OWNER);
    const held = await loseToOther(stage);
    assertEquals(await stage.lock.attach("n", ID), null);
    assertEquals(lossOf(first), "stolen");
    held.throwIfLost();
  }));

Deno.test("RedisLock.attach() ends a waiting call of the same owner id, which leaves its place, and asks Redis", () =>
  play(async (stage) => {
    const { lock, other } = stage;
    const held = await other.acquire("n");
    const waiting = assertRejects(() => lock.acquire("n", OWNER), LockError, "attach() was called");
    await waitUntil("it waits", async () => await stage.waiting() === 1);
    const behind = other.acquire("n");
    await waitUntil("both wait", async () => await stage.waiting() === 2);
    assertEquals(await lock.attach("n", ID), null);
    assertEquals(scripts(stage).at(-1), "ask");
    await waiting;
    assertEquals(await stage.waiting(), 1);
    await held.release();
    assertEquals(await (await atOnce("it is granted", behind)).release(), true);
  }));

Deno.test("RedisLock.attach() ends a waiting call of the same owner id and keeps the lock that the id has", () =>
  play(async (stage) => {
    const { lock, other } = stage;
    const held = await other.acquire("n");
    const waiting = assertRejects(() => lock.acquire("n", OWNER), LockError, "attach() was called");
    // Its next ask is due a second later.
    await waitUntil("its inbox is proven", async () => {
      return (await provenInboxes(stage.server.command, stage.keys.waiters)).length === 1;
    });
    // The owner id gets the lock in a way that its waiting call does not learn of.
    const thief = other.request(
      "n",
      { steal: true, ...OWNER } as { steal: true },
      async (stolen) => {
        const attached = await lock.attach("n", ID);
        assert(attached !== null && attached.fencingToken > stolen!.fencingToken);
        await atOnce("it ends", waiting);
        attached.throwIfLost();
        assertEquals(await stage.waiting(), 0);
        assertEquals(await attached.release(), true);
      },
    );
    await assertRejects(() => thief, LeaseLostError);
    await held.release();
  }));

/** Makes `lock` wait ahead of `other`, and holds back the message that the lock was granted to it. */
async function grantUnheard(stage: Stage) {
  const { lock, other, gates } = stage;
  const held = await other.acquire("n");
  const waiting = assertRejects(() => lock.acquire("n", OWNER), LockError, "attach() was called");
  await waitUntil("its inbox is proven", async () => {
    return (await provenInboxes(stage.server.command, stage.keys.waiters)).length === 1;
  });
  const message = new Gate();
  gates.onMessage = () => message.pass();
  const behind = other.acquire("n");
  await waitUntil("both wait", async () => await stage.waiting() === 2);
  await held.release();
  await message.arrived;
  return { waiting, behind, message };
}

Deno.test("RedisLock.attach() keeps the lock when the call that it ends was granted it and has not heard of that", () =>
  play(async (stage) => {
    const { lock, gates } = stage;
    const { waiting, behind, message } = await grantUnheard(stage);
    // Its message comes while the clean-up of the call is under way.
    gates.onRequest = ({ script }) => script === "leave" ? message.open() : undefined;
    const attached = await atOnce("it is attached", lock.attach("n", ID));
    await waiting;
    assert(attached !== null);
    await attached.renew();
    assertEquals(await attached.release(), true);
    assertEquals(await (await atOnce("then the other", behind)).release(), true);
  }));

Deno.test("RedisLock.attach() keeps the lock when its own ask fails before the message to the call that it ended", () =>
  play(async (stage) => {
    const { lock, gates } = stage;
    const { waiting, behind, message } = await grantUnheard(stage);
    const leaves = () => scripts(stage).filter((script) => script === "leave").length;
    gates.onRequest = async ({ script, args }) => {
      if (script !== "ask" || args[3] !== "attach") return;
      gates.onRequest = undefined;
      assertEquals(leaves(), 1, "the call that it ended has left");
      message.open();
      await waitUntil("its grant is known", () => leaves() === 2);
      throw Object.assign(new Error("cut"), { code: "ECONNRESET" });
    };
    const attached = await atOnce("it is attached", lock.attach("n", ID));
    await waiting;
    assert(attached !== null);
    await attached.renew();
    assertEquals(await attached.release(), true);
    assertEquals(await (await atOnce("then the other", behind)).release(), true);
  }));

Deno.test("RedisLock.attach() takes over from a call of the same owner id that waited and has asked before it", () =>
  play(async (stage) => {
    const { lock, other, gates } = stage;
    const held = await other.acquire("n");
    const waiting = lock.acquire("n", OWNER);
    waiting.catch(() => {}); // it is awaited later
    const ask = new Gate();
    await waitUntil("it waits", async () => await stage.waiting() === 1);
    gates.onRequest = ask.first("ask");
    await ask.arrived;
    const thief = other.request("n", { steal: true, ...OWNER } as { steal: true }, async () => {
      ask.open(); // Redis says that the owner id holds the lock
      const first = await atOnce("it is granted", waiting);
      const attached = await lock.attach("n", ID);
      assert(attached !== null && attached.fencingToken > first.fencingToken);
      assertEquals(lossOf(first), "stolen");
      attached.throwIfLost();
      assertEquals(await attached.release(), true);
    });
    await assertRejects(() => thief, LeaseLostError);
    await held.release();
  }));

Deno.test("RedisLock keeps the lock of an owner id when a call that would take it over is aborted, then granted", () =>
  play(async (stage) => {
    const { lock, other, gates } = stage;
    const first = await lock.acquire("n", OWNER);
    const answer = new Gate();
    gates.onReply = answer.first("ask");
    const abort = new AbortController();
    const cut = assertRejects(() => lock.acquire("n", { ...OWNER, signal: abort.signal }));
    await answer.arrived;
    abort.abort();
    await cut;
    answer.open();
    await waitUntil("it has left", () => scripts(stage).includes("leave"));
    await lock.query("n");
    assertEquals(lossOf(first), "stolen");
    assertEquals(await other.tryAcquire("n"), null);
    const attached = await lock.attach("n", ID);
    assert(attached !== null);
    assertEquals(await attached.release(), true);
  }));

Deno.test("RedisLock releases a lock that it has taken over under an owner id when the lease was held for too long", () =>
  play(async (stage) => {
    const first = await stage.lock.acquire("n", OWNER);
    const second = await stage.lock.acquire("n", { ...OWNER, maxHoldMs: 50 });
    await waitUntil("it was held for too long", () => !second.isHeld);
    assertEquals(lossOf(first), "stolen");
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock sends nothing to clean up after a lease that another call of the owner id has taken over", () =>
  play(async (stage) => {
    const { lock } = stage;
    const first = await lock.acquire("n", OWNER);
    const second = await lock.acquire("n", OWNER);
    assertEquals(lossOf(first), "stolen");
    await lock.query("n");
    assertEquals(scripts(stage).filter((script) => script === "leave"), []);
    assertEquals(await second.release(), true);
  }));

Deno.test("RedisLock keeps the lock of a call that ends while it waits only if attach() has ended it", async () => {
  for (const end of ["abort", "attach"] as const) {
    const client = new ScriptedClient();
    await using lock = new RedisLock(client, { disposeTimeoutMs: 0 });
    const held = lock.acquire("n", OWNER);
    await settle();
    client.take("n").answer(granted(1));
    const first = await held;
    const abort = new AbortController();
    const waiting = assertRejects(() => lock.acquire("n", { ...OWNER, signal: abort.signal }));
    await settle();
    client.take("n").answer(granted(2, 1)); // too late for a lease, so it asks again
    await settle();
    assertEquals(lossOf(first), "stolen");
    const ask = client.take("n");
    if (end === "abort") abort.abort();
    else lock.attach("n", ID).catch(() => {}); // it asks afterwards
    await waiting;
    ask.answer(queued(1)); // it has lost the lock since
    await settle();
    const { script, args } = client.unanswered[0]!;
    assertEquals([script, args.includes(KEEP)], ["leave", end === "attach"]);
    await client.denyAll();
  }
});

for (const method of ["acquire", "tryAcquire"] as const) {
  Deno.test(`RedisLock.${method}() with an owner id ends the earlier lease of its instance when it was aborted before the refusal`, () =>
    play(async (stage) => {
      const { lock, gates } = stage;
      const first = await lock.acquire("n", { ...OWNER, autoRenew: false });
      const lost = new Promise((resolve) => first.signal.addEventListener("abort", resolve));
      await using _held = await loseToOther(stage);
      const answer = new Gate();
      gates.onReply = answer.first("ask");
      const abort = new AbortController();
      const cut = assertRejects(() => lock[method]("n", { ...OWNER, signal: abort.signal }));
      await answer.arrived;
      abort.abort();
      await cut;
      assert(first.isHeld);
      answer.open();
      await atOnce("it is lost", lost);
      assertEquals(lossOf(first), "stolen");
    }));
}

Deno.test("RedisLock.tryAcquire() with an owner id rejects with LockUnavailableError when Redis does not answer for a lease of the instance", async () => {
  await using server = await startRedis();
  await using proxy = startProxy(server);
  const { client, close } = await openRedisClient(
    "node-redis",
    `redis://${proxy.hostname}:${proxy.port}`,
  );
  try {
    await using lock = new RedisLock(client, { ttlMs: 60_000, unavailableAfterMs: 1_500 });
    const lease = await lock.acquire("n", OWNER);
    proxy.onReply = () => "drop";
    await assertRejects(() => lock.tryAcquire("n", OWNER), LockUnavailableError);
    const abort = AbortSignal.timeout(50);
    const cut = await lock.acquire("n", { ...OWNER, signal: abort }).then(() => null, (e) => e);
    assert(cut === abort.reason);
    lease.throwIfLost(); // an outage is not a loss
    proxy.onReply = undefined;
    proxy.cutAll();
    // The call that was cut off has taken the lock over, and its clean-up keeps it for the owner id.
    await assertRejects(() => lease.renew(), LeaseLostError, "stolen");
    const again = await lock.attach("n", ID);
    assert(again !== null);
    assertEquals(await again.release(), true);
  } finally {
    await close();
  }
});

Deno.test("RedisLock keeps no memory of calls with an owner id that fail while an earlier one has no answer", async () => {
  const program = new URL("../../testing/redis/owner_memory.ts", import.meta.url).href;
  const args = ["run", "-A", "--no-check", "--v8-flags=--expose-gc", program];
  const command = new Deno.Command(Deno.execPath(), { args, stderr: "inherit" });
  const { code, stdout } = await command.output();
  const text = new TextDecoder().decode(stdout);
  assertEquals([code, text !== ""], [0, true]);
  const bytes = Number(text);
  assert(bytes < 1_500, `${bytes} bytes each`); // also fails if that is not a number
});

for (
  const [what, options, keeps] of [
    ["makes its owner id itself", {}, false],
    ["has an owner id", OWNER, false],
    ["outlives a disposal", { outlivesDisposal: true }, false],
    ["outlives a disposal under an owner id", { ...OWNER, outlivesDisposal: true }, true],
  ] as const
) {
  Deno.test(`RedisLock ${keeps ? "keeps" : "frees"} the lock of an aborted call that ${what}, when its ask is answered`, async () => {
    const client = new ScriptedClient();
    await using lock = new RedisLock(client, { disposeTimeoutMs: 0 });
    const abort = new AbortController();
    const call = () => lock.acquire("n", { ...options, signal: abort.signal });
    const rejected = assertRejects(call, DOMException);
    await settle();
    const ask = client.take("n");
    abort.abort();
    await rejected;
    await settle();
    assertEquals(client.count("n"), 0, "its ask is not answered");
    ask.answer(granted(1));
    await settle();
    const { script, args } = client.unanswered[0]!;
    assertEquals([script, args.includes(KEEP)], ["leave", keeps]);
    await client.denyAll();
  });
}

Deno.test("OwnerCalls ends the wait of a call that is over, although an earlier call has no answer", async () => {
  const calls = new OwnerCalls();
  const begin = (quiet: Promise<void>): OwnerCall => {
    const call: OwnerCall = {
      mode: "wait",
      isWanted: false, // it was aborted
      ownerTurn: null,
      end() {},
      quiet: () => quiet,
    };
    calls.begin("n", ID, call);
    return call;
  };
  const answer = Promise.withResolvers<void>();
  const first = begin(answer.promise).ownerTurn!;
  const second = begin(Promise.resolve()).ownerTurn!;
  const third = begin(Promise.resolve()).ownerTurn!;
  let mayAsk = false;
  third.earlier!.then(() => mayAsk = true);
  first.end();
  second.end();
  await within("its wait ends", second.earlier!);
  await settle();
  assertEquals([first.earlier, mayAsk], [undefined, false]);
  answer.resolve();
  await within("the next one may ask", third.earlier!);
});
