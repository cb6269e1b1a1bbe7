/**
 * An ask that Redis executes late would take the lock from a later call of the same owner id. So each call
 * waits until the asks of the one before, and its clean-up, are answered.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { Gate } from "../../testing/redis/gated_client.ts";
import { atOnce, isTheOne, play, type Stage } from "../../testing/redis/race_stage.ts";
import { provenInboxes } from "../../testing/redis/traces.ts";
import { LockUnavailableError } from "../../mod.ts";
import { scaled } from "../../testing/time.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

const ID = "job-7";
const OWNER = { ownerId: ID };
/** Longer than an ask to a local server takes. */
const SHORT_OUTAGE_MS = scaled(500);

/** Later each script is one command. */
async function loadScripts({ lock, gates }: Stage): Promise<void> {
  await (await lock.acquire("n")).release();
  gates.sent.length = 0;
}

Deno.test("RedisLock.attach() asks only when an earlier ask of its owner id is answered, and returns a lease that holds the lock", () =>
  play(async (stage) => {
    const { lock, other, gates } = stage;
    const held = await other.acquire("n");
    const waiting = lock.acquire("n", OWNER);
    waiting.catch(() => {}); // it is awaited later
    await waitUntil("its inbox is proven", async () => {
      return (await provenInboxes(stage.server.command, stage.keys.waiters)).length === 1;
    });
    const late = new Gate();
    gates.onRequest = late.first("ask");
    await late.arrived; // the first in line asks again
    await held.release();
    const first = await atOnce("it is granted", waiting);
    const behind = other.acquire("n");
    await waitUntil("the other waits", async () => await stage.waiting() === 1);
    const attached = lock.attach("n", ID);
    await stage.other.query("n");
    const asked = () =>
      gates.sent.some(({ script, args }) => script === "ask" && args[3] === "attach");
    assertEquals(asked(), false);
    late.open();
    const lease = await atOnce("it is answered", attached);
    assert(lease !== null && lease.fencingToken > first.fencingToken);
    assert(!first.isHeld);
    lease.throwIfLost();
    await lease.renew();
    assertEquals(await lease.release(), true);
    assertEquals(await (await atOnce("then the other", behind)).release(), true);
  }));

Deno.test("RedisLock.acquire() with an owner id returns a lease that holds the lock when the ask of an aborted call is executed late", () =>
  play(async (stage) => {
    const { lock, gates } = stage;
    await loadScripts(stage);
    const late = new Gate();
    gates.onRequest = late.first("ask");
    const abort = new AbortController();
    const aborted = lock.acquire("n", { ...OWNER, signal: abort.signal });
    await late.arrived;
    abort.abort();
    await assertRejects(() => aborted, DOMException);
    const next = lock.acquire("n", OWNER);
    // The ask of the aborted call may be executed as long as it is unanswered, and then its clean-up follows.
    await stage.other.query("n");
    assertEquals(gates.sent.map(({ script }) => script), ["ask"]);
    late.open();
    const lease = await atOnce("it is granted", next);
    const sent = gates.sent.map(({ script }) => script);
    // A stalled machine delays an ask by over a second: it is sent again.
    if (gates.lateAsks === 0) assertEquals(sent, ["ask", "leave", "ask"]);
    await isTheOne(stage, lease);
    assertEquals(await lease.release(), true);
  }));

Deno.test("RedisLock.acquire() with an owner id rejects with LockUnavailableError when the clean-up of the call before is not answered", () =>
  play(async (stage) => {
    const { lock, gates } = stage;
    await loadScripts(stage);
    const clean = new Gate();
    const late = new Gate();
    gates.onReply = async (sent) => {
      await late.first("ask")(sent);
      await clean.first("leave")(sent);
    };
    const abort = new AbortController();
    const aborted = lock.acquire("n", { ...OWNER, signal: abort.signal });
    await late.arrived;
    abort.abort();
    await assertRejects(() => aborted, DOMException);
    late.open();
    await clean.arrived;
    const error = await assertRejects(() => lock.acquire("n", OWNER), LockUnavailableError);
    assertEquals(error.lockName, "n");
    assertEquals(gates.sent.map(({ script }) => script), ["ask", "leave"]);
    clean.open();
    await using lease = await lock.acquire("n", OWNER);
    lease.throwIfLost();
  }, { unavailableAfterMs: SHORT_OUTAGE_MS }));
