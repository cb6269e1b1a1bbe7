/**
 * Copies of commands that are executed late, and clean-ups that arrive during a later call.
 */
import { assert, assertEquals, assertGreater, assertRejects } from "@std/assert";
import { untilShown } from "../../testing/processes/stalls.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { Gate, type ScriptHook, type SentScript } from "../../testing/redis/gated_client.ts";
import { atOnce, play, type Stage } from "../../testing/redis/race_stage.ts";

const OWNER = "somebody-with-an-id-of-its-own";

/** Makes the server's clock known, as in a running service. */
async function warmUp({ lock }: Stage): Promise<void> {
  await (await lock.acquire("warm-up")).release();
}

/** Loses the reply to the first script of this kind. */
function loseFirst(script: SentScript["script"]): (sent: SentScript) => void {
  let lost = 0;
  return (sent) => {
    if (sent.script === script && lost++ === 0) throw new Error("The connection was lost");
  };
}

function sentOf({ gates }: Stage, script: SentScript["script"]): SentScript[] {
  return gates.sent.filter((sent) => sent.script === script);
}

/** Sends a copy to the server. Returns the state that the script replies. */
async function replay({ server }: Stage, { copy }: SentScript): Promise<number> {
  const [state] = await server.command(...copy) as number[];
  return state!;
}

/**
 * Plays a cycle, and replays its first ask after the release. A stall of over a second makes that copy too late
 * to meet the tombstone: then the scene begins again.
 */
async function replayInTime(stage: Stage, onReply: () => ScriptHook) {
  await warmUp(stage);
  let replayed: { ask: SentScript; state: number } | undefined;
  await untilShown(async () => {
    stage.gates.sent.length = 0;
    stage.gates.onReply = onReply();
    await (await stage.lock.acquire("n")).release();
    const ask = sentOf(stage, "ask")[0]!;
    replayed = { ask, state: await replay(stage, ask) };
    return replayed.state === -1 ? "stalled" : "shown";
  });
  return replayed!;
}

Deno.test("RedisLock.acquire() retries without a clean-up, and the release then leaves a tombstone", () =>
  play(async (stage) => {
    await warmUp(stage);
    stage.gates.sent.length = 0;
    stage.gates.onReply = loseFirst("ask");
    const lease = await atOnce("it asks again", stage.lock.acquire("n"));
    const { sent, lateAsks } = stage.gates;
    assert(sent.every(({ script }) => script === "ask"));
    assert(
      sent.length >= 2 && sent.length <= 2 + lateAsks,
      `${sent.length} asks, ${lateAsks} late`,
    );
    const [first, again] = sent;
    assertEquals(first!.args[0], again!.args[0], "under the same value");
    await lease.release();
    const [leave] = sentOf(stage, "leave");
    assertGreater(Number(leave!.args[1]), 0);
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock refuses late copies of an ask after the release, first by its tombstone, then by their time limit", () =>
  play(async (stage) => {
    const { ask, state } = await replayInTime(stage, () => loseFirst("ask"));
    const states = new Set([state]);
    await waitUntil("it is too late for it", async () => {
      const state = await replay(stage, ask);
      states.add(state);
      assertEquals(await stage.holder(), null);
      return state === -1;
    });
    assertEquals([...states], [-2, -1], "refused by the tombstone, then by its own time");
    await stage.freeAtOnce();
    assertEquals(await replay(stage, ask), -1);
  }));

Deno.test("RedisLock needs no tombstone after an answered ask: copies of it do nothing after their time limit", () =>
  play(async (stage) => {
    const { server: { command } } = stage;
    await warmUp(stage);
    stage.gates.sent.length = 0;
    await (await stage.lock.acquire("n")).release();
    assertEquals(sentOf(stage, "leave")[0]!.args[1], "0", "no copy can be under way");
    const [ask] = sentOf(stage, "ask");
    const notAfterMs = Number(ask!.args[2]);
    assertGreater(notAfterMs, 0);
    await waitUntil("its time is over", async () => {
      const [s, us] = (await command("TIME") as string[]).map(Number);
      return s! * 1_000 + us! / 1_000 > notAfterMs + 1;
    });
    assertEquals(await replay(stage, ask!), -1);
    assertEquals(await stage.holder(), null);
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock refuses late copies of the first ask of an instance, which has no time limit", () =>
  play(async (stage) => {
    stage.gates.onReply = loseFirst("ask");
    await (await stage.lock.acquire("n")).release();
    const [ask] = sentOf(stage, "ask");
    assertEquals(ask!.args[2], "0");
    assertEquals(await replay(stage, ask!), -2);
    assertGreater(Number(await stage.server.command("PTTL", stage.keys.waiters)), 20_000);
    assertEquals(await stage.holder(), null);
    await stage.freeAtOnce();
    assertEquals(await replay(stage, ask!), -2);
  }));

Deno.test("RedisLock refuses copies of an ask that a reconnect may have made", () =>
  play(async (stage) => {
    const { state } = await replayInTime(stage, () => ({ script }) => {
      if (script === "ask") stage.gates.epoch++;
    });
    assertEquals(state, -2);
    assertEquals(await stage.holder(), null);
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock refuses copies of an ask after its waiter has given up", () =>
  play(async (stage) => {
    await warmUp(stage);
    stage.gates.sent.length = 0;
    stage.gates.onReply = loseFirst("ask");
    const abort = new AbortController();
    const { held, waiting } = await stage.queueUp(abort.signal);
    abort.abort();
    await assertRejects(() => waiting, DOMException);
    await waitUntil("it has left", async () => await stage.waiting() === 0);
    for (const ask of sentOf(stage, "ask")) assert(await replay(stage, ask) < 0);
    assertEquals(await stage.waiting(), 0);
    await held.release();
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock grants a later call with the same owner id when the late clean-up of an aborted one is over", () =>
  play(async (stage) => {
    const { gates, lock } = stage;
    await warmUp(stage);
    const reply = new Gate();
    const cleanUp = new Gate();
    gates.onReply = reply.first("ask");
    gates.onRequest = cleanUp.first("leave");
    const abort = new AbortController();
    const first = lock.acquire("n", { ownerId: OWNER, signal: abort.signal });
    first.catch(() => {}); // it is awaited later
    await reply.arrived; // the server has granted the lock, the reply is held back
    abort.abort();
    await assertRejects(() => first, DOMException);
    reply.open(); // it says that the call has the lock
    await cleanUp.arrived;
    const again = lock.acquire("n", { ownerId: OWNER });
    again.catch(() => {}); // it is awaited later
    cleanUp.open();
    const lease = await atOnce("it is granted", again);
    await lease.renew();
    assert((await stage.holder())?.startsWith(OWNER));
    assertEquals(await lease.release(), true);
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock hands the lock to the next waiter when it cleans up after an aborted call", () =>
  play(async (stage) => {
    const { gates, lock } = stage;
    await warmUp(stage);
    const reply = new Gate();
    const cleanUp = new Gate();
    gates.onReply = reply.first("ask");
    gates.onRequest = cleanUp.first("leave");
    const abort = new AbortController();
    const first = lock.acquire("n", { signal: abort.signal });
    first.catch(() => {}); // it is awaited later
    await reply.arrived;
    abort.abort();
    reply.open(); // it says that the call has the lock
    await cleanUp.arrived;
    const second = lock.acquire("n"); // behind the aborted call, which holds the lock
    await waitUntil("it waits", async () => await stage.waiting() === 1);
    cleanUp.open();
    const lease = await atOnce("it is handed over", second);
    assertEquals(await lease.release(), true);
    await stage.freeAtOnce();
  }));

Deno.test("Lease.renew() that is executed late neither shortens the lease, nor revives it, nor touches the next holder", () =>
  play(async (stage) => {
    const { lock, other, server: { command }, keys } = stage;
    const lease = await lock.acquire("n");
    await lease.renew(70_000);
    const [short] = sentOf(stage, "renew");
    await lease.renew(600_000);
    const late = { ...short!, copy: short!.copy };
    assertEquals(await replay(stage, late), 1);
    assertGreater(Number(await command("PTTL", keys.lock)), 400_000);
    assertGreater(lease.remainingMs, 400_000);
    await lease.release();
    assertEquals(await replay(stage, late), 0);
    assertEquals(await stage.holder(), null);
    const next = await other.acquire("n");
    assertEquals(await replay(stage, late), -1);
    const leftMs = Number(await command("PTTL", keys.lock));
    assert(leftMs > 0 && leftMs <= 60_000, `${leftMs} ms`);
    assertEquals(await next.release(), true);
  }));

Deno.test("Lease.release() that is executed twice does not release the lock of the next holder", () =>
  play(async (stage) => {
    const { server: { command } } = stage;
    const { held, waiting } = await stage.queueUp();
    await held.release();
    const lease = await waiting;
    await lease.release();
    const [leave] = sentOf(stage, "leave");
    const next = await stage.other.acquire("n");
    assertEquals((await command(...leave!.copy) as number[])[0], -1);
    next.throwIfLost();
    await next.renew();
    assertEquals(await next.release(), true);
  }));
