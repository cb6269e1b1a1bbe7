/**
 * Grant messages and asks that cross each other, in every order.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { ASK } from "../../redis/protocol/scripts.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { Gate } from "../../testing/redis/gated_client.ts";
import { atOnce, isTheOne, play } from "../../testing/redis/race_stage.ts";
import { provenInboxes } from "../../testing/redis/traces.ts";
import { within } from "../../testing/conformance/bounds.ts";

Deno.test("RedisLock opens one lease when a grant message overtakes the answer to an earlier ask", () =>
  play(async (stage) => {
    const { held, waiting } = await stage.queueUp();
    const gate = new Gate();
    stage.gates.onReply = gate.first("ask");
    await gate.arrived; // the first waiter has asked again; the reply "queued" is held back
    await held.release();
    const lease = await atOnce("the message is enough", waiting);
    gate.open();
    await isTheOne(stage, lease);
    assertEquals(await lease.release(), true);
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock opens one lease when the answer to an ask overtakes the grant message", () =>
  play(async (stage) => {
    const { held, waiting } = await stage.queueUp();
    const gate = new Gate();
    stage.gates.onMessage = () => gate.pass();
    await held.release();
    await gate.arrived; // the server has published the grant message
    const lease = await atOnce("the head asks again", waiting);
    gate.open();
    await isTheOne(stage, lease);
    assertEquals(stage.gates.sent.filter(({ script }) => script === "leave"), []);
    assertEquals(await lease.release(), true);
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock does not touch the next holder when a grant message arrives after the lease has ended", () =>
  play(async (stage) => {
    const { held, waiting } = await stage.queueUp();
    const gate = new Gate();
    stage.gates.onMessage = () => gate.pass();
    await held.release();
    await gate.arrived;
    const lease = await atOnce("the head asks again", waiting);
    await lease.release();
    const later = await stage.other.acquire("n");
    const before = stage.gates.sent.length;
    gate.open();
    await waitUntil("the grant goes to the next waiter", () => stage.gates.sent.length > before);
    await later.renew();
    assert((await stage.holder())?.startsWith(later.ownerId));
    assertEquals(await later.release(), true);
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock keeps one lease when an ask reaches the server after the grant", () =>
  play(async (stage) => {
    const { held, waiting } = await stage.queueUp();
    const gate = new Gate();
    stage.gates.onRequest = gate.first("ask");
    await gate.arrived;
    await held.release();
    const lease = await atOnce("the message is enough", waiting);
    const answered = new Gate();
    stage.gates.onReply = answered.first("ask");
    gate.open();
    await answered.arrived;
    answered.open();
    await isTheOne(stage, lease);
    assertEquals(await lease.release(), true);
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock releases a lease that was held for too long when an ask has reached the server after its grant", () =>
  play(async (stage) => {
    const { lock, other, gates, server: { command } } = stage;
    const held = await other.acquire("n");
    const waiting = lock.acquire("n", { maxHoldMs: 200 });
    await waitUntil("its inbox is proven", async () => {
      return (await provenInboxes(command, stage.keys.waiters)).length === 1;
    });
    const gate = new Gate();
    gates.onRequest = gate.first("ask");
    await gate.arrived;
    await held.release();
    const lease = await atOnce("the message is enough", waiting);
    gate.open();
    await lock.query("n");
    await waitUntil("it was held for too long", () => !lease.isHeld);
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock leaves the lock free when an ask reaches the server after the release", () =>
  play(async (stage) => {
    const { held, waiting } = await stage.queueUp();
    const gate = new Gate();
    stage.gates.onRequest = gate.first("ask");
    await gate.arrived;
    await held.release();
    const lease = await atOnce("the message is enough", waiting);
    assertEquals(await lease.release(), true);
    const answered = new Gate();
    stage.gates.onReply = answered.first("ask");
    gate.open();
    await answered.arrived;
    answered.open();
    assertEquals(await stage.holder(), null, "nobody wants it any more");
    assertEquals(await stage.waiting(), 0);
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock opens no lease for a grant that was stolen before its message arrived", () =>
  play(async (stage) => {
    const { held, waiting } = await stage.queueUp();
    const { promise: both, resolve: deliver } = Promise.withResolvers<void>();
    let messages = 0;
    stage.gates.onMessage = () => (messages++, both);
    await held.release();
    await stage.other.request("n", { steal: true }, async (thief) => {
      await waitUntil("the messages of the grant and of the theft are there", () => messages === 2);
      deliver();
      let isGranted = false;
      waiting.then(() => isGranted = true);
      const answered = new Gate();
      stage.gates.onReply = answered.first("ask");
      await Promise.race([waiting, within("it asks again", answered.arrived)]);
      answered.open();
      await stage.lock.query("n"); // answered after the ask, on the same connection
      thief!.throwIfLost();
      assert(!isGranted, "it has no lease while the thief holds the lock");
    });
    const lease = await atOnce("it is granted", waiting);
    await isTheOne(stage, lease);
    assertEquals(await lease.release(), true);
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock opens no lease for an answer whose grant was stolen before it arrived", () =>
  play(async (stage) => {
    const { gates, lock } = stage;
    const { held, waiting } = await stage.queueUp();
    const lost = new Gate();
    let messages = 0;
    gates.onMessage = () => (messages++, lost.pass());
    await held.release();
    await lost.arrived; // it has the lock, and asks again
    const answer = new Gate();
    gates.onReply = answer.first("ask");
    await answer.arrived;
    await stage.other.request("n", { steal: true }, async (thief) => {
      await waitUntil("it is told of the theft", () => messages === 2);
      await lock.query("n");
      let isGranted = false;
      waiting.then(() => isGranted = true);
      gates.sent.length = 0;
      answer.open();
      const asked = waitUntil(
        "it asks again",
        () => gates.sent.some(({ script }) => script === "ask"),
      );
      await Promise.race([waiting, asked]);
      await lock.query("n"); // answered after the ask, on the same connection
      thief!.throwIfLost();
      assert(!isGranted, "it has no lease while the thief holds the lock");
    });
    const lease = await atOnce("it is granted", waiting);
    await isTheOne(stage, lease);
    assertEquals(await lease.release(), true);
    lost.open();
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock frees the lock when a waiter is aborted while its grant message is under way", () =>
  play(async (stage) => {
    const abort = new AbortController();
    const { held, waiting } = await stage.queueUp(abort.signal);
    const gate = new Gate();
    stage.gates.onMessage = () => gate.pass();
    await held.release();
    await gate.arrived;
    abort.abort();
    await assertRejects(() => waiting, DOMException);
    await stage.freeAtOnce();
    const later = await stage.other.acquire("n");
    gate.open();
    await later.renew();
    assert((await stage.holder())?.startsWith(later.ownerId));
    assertEquals(await later.release(), true);
  }));

Deno.test("RedisLock opens a lease for a waiter whose grant message is lost when another waiter of the instance asks", () =>
  play(async (stage) => {
    const { lock, other, gates, server, keys } = stage;
    const held = await other.acquire("n");
    // The first waiter hears last that it is in the queue, so the second one asks for both.
    const answer = new Gate();
    gates.onReply = answer.first("ask");
    const first = lock.acquire("n");
    await answer.arrived;
    const told = Promise.withResolvers<void>();
    const second = lock.acquire("n", { onWait: () => told.resolve() });
    await told.promise;
    gates.onReply = undefined;
    answer.open();
    await waitUntil("the inbox is proven", async () => {
      return (await provenInboxes(server.command, keys.waiters)).length === 1;
    });
    const lost = new Gate();
    gates.onMessage = () => lost.pass();
    await held.release();
    await lost.arrived;
    gates.gap();
    const lease = await atOnce("the first one has the lock", first);
    lease.throwIfLost();
    assertEquals(await lease.release(), true);
    assertEquals(await (await atOnce("then the second one", second)).release(), true);
    lost.open();
  }));

Deno.test("RedisLock releases a grant to an unknown call for the next waiter", () =>
  play(async (stage) => {
    const { server: { command }, keys } = stage;
    const abort = new AbortController();
    const { held, waiting: earlier } = await stage.queueUp(abort.signal);
    const [inbox] = await provenInboxes(command, keys.waiters);
    // A late copy of an old ask queues a call that is unknown by now.
    const place = [keys.lock, keys.queue, keys.waiters, keys.token];
    const ask = ["ghost#0123456789abcdef", 5_000, 0, "wait", `${inbox} 1 0`];
    await command("EVAL", ASK.source, 4, ...place, ...ask);
    const waiting = stage.lock.acquire("n");
    await waitUntil("it waits behind the ghost", async () => await stage.waiting() === 3);
    abort.abort();
    await assertRejects(() => earlier, DOMException);
    await waitUntil("the ghost is the first", async () => await stage.waiting() === 2);
    await held.release();
    const lease = await atOnce("the next waiter gets the grant of the ghost", waiting);
    await isTheOne(stage, lease);
    assertEquals(await lease.release(), true);
  }));

Deno.test("RedisLock sends no further ask for a waiter that is aborted", () =>
  play(async (stage) => {
    const { gates, lock, other, server: { command } } = stage;
    const held = await other.acquire("n");
    const abort = new AbortController();
    let isLast = false;
    const onWait = () => {
      if (isLast) abort.abort();
    };
    const waiting = lock.acquire("n", { signal: abort.signal, onWait });
    waiting.catch(() => {}); // it is awaited later
    await waitUntil("its inbox is proven", async () => {
      return (await provenInboxes(command, stage.keys.waiters)).length === 1;
    });
    const asks = new Gate();
    gates.onRequest = asks.first("ask");
    await asks.arrived;
    const left = new AbortController();
    const second = assertRejects(() => other.acquire("n", { signal: left.signal }));
    await waitUntil("another one waits, so its answer has news", async () => {
      return await stage.waiting() === 2;
    });
    const gate = new Gate();
    gates.onReply = gate.first("ask");
    asks.open();
    await gate.arrived;
    left.abort();
    await second;
    gates.gap(); // it must ask again after this answer
    isLast = true;
    await command("SCRIPT", "FLUSH"); // a further ask would fail unnoticed
    gates.sent.length = 0;
    gate.open();
    await assertRejects(() => waiting, DOMException);
    await waitUntil("it has left", async () => await stage.waiting() === 0);
    assertEquals(gates.sent.filter(({ script }) => script === "ask"), []);
    await held.release();
    await stage.freeAtOnce();
  }));
