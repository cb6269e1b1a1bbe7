/**
 * Grants, asks, clean-ups and renewals that cross each other on real sockets, forced by a proxy. Never
 * two holders, and never a lock that nobody holds for a claim or a TTL.
 */
import { assert, assertEquals, assertGreater, assertRejects } from "@std/assert";
import { within } from "../../testing/conformance/bounds.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { Gate } from "../../testing/redis/gated_client.ts";
import { atOnce } from "../../testing/redis/race_stage.ts";
import {
  holdBack,
  playOnWire,
  type WireScript,
  type WireStage,
} from "../../testing/redis/wire_stage.ts";

const OWNER = "somebody-with-an-id-of-its-own";

function scene(title: string, play: (stage: WireStage) => Promise<void>): void {
  for (const client of ["node-redis", "ioredis", "deno-redis-like"] as const) {
    Deno.test(`RedisLock × ${client} on the wire: ${title}`, () => playOnWire(client, play));
  }
}

/** Cuts the connection at the first script of a kind. Returns a function that returns this script. */
function intercept(stage: WireStage, script: WireScript["script"]): () => WireScript | undefined {
  let caught: WireScript | undefined;
  stage.onRequest = (sent) => {
    if (caught !== undefined || sent.script !== script) return "pass";
    caught = sent;
    return "cut";
  };
  return () => caught;
}

scene(
  "opens one lease when a grant message overtakes the answer to an earlier ask",
  async (stage) => {
    const { held, waiting } = await stage.queueUp();
    const gate = new Gate();
    stage.onReply = (reply) => reply === "queued" ? holdBack(gate) : "pass";
    await gate.arrived; // the first waiter has asked again; the reply "queued" is held back
    await held.release();
    const lease = await atOnce("the message is enough", waiting);
    gate.open();
    await stage.isTheOne(lease);
    assertEquals(await lease.release(), true);
    await stage.freeAtOnce();
  },
);

scene("opens one lease when the answer to an ask overtakes the grant message", async (stage) => {
  const { held, waiting } = await stage.queueUp();
  const gate = new Gate();
  stage.onReply = (reply) => reply === "message" ? holdBack(gate) : "pass";
  await held.release();
  await gate.arrived; // the server has published the grant message
  const lease = await atOnce("the head asks again", waiting);
  gate.open();
  await stage.isTheOne(lease);
  assertEquals(stage.sent.filter(({ script }) => script === "leave").length, 1, "of the warm-up");
  assertEquals(await lease.release(), true);
  await stage.freeAtOnce();
});

scene("keeps one lease when an ask reaches the server after the grant", async (stage) => {
  const { held, waiting } = await stage.queueUp();
  const gate = new Gate();
  stage.onRequest = ({ script }) => script === "ask" ? holdBack(gate) : "pass";
  await gate.arrived;
  await held.release();
  const lease = await atOnce("the message is enough", waiting);
  const answer = new Gate();
  stage.onReply = (reply) => reply === "granted" ? holdBack(answer) : "pass";
  gate.open();
  await answer.arrived; // the server has extended the lock
  answer.open();
  await stage.isTheOne(lease);
  assertEquals(await lease.release(), true);
  await stage.freeAtOnce();
});

scene(
  "leaves the lock free when an ask whose connection broke is delivered after the release",
  async (stage) => {
    const caught = intercept(stage, "ask");
    const lease = await within("it asks again", stage.lock.acquire("n"));
    const late = caught();
    assert(late !== undefined, "the first ask was delayed");
    await stage.isTheOne(lease);
    assertEquals(await lease.release(), true);
    assert(await stage.deliver(late) < 0, "it is refused");
    assertEquals(await stage.holder(), null);
    await stage.freeAtOnce();
    assert(await stage.deliver(late) < 0, "and again");
  },
);

scene(
  "leaves the lock free when an ask whose answer was lost is executed again after the release",
  async (stage) => {
    let lost = 0;
    stage.onReply = (reply) => reply === "granted" && lost++ === 0 ? "cut" : "pass";
    const lease = await within("it asks again", stage.lock.acquire("n"));
    assertEquals(lost >= 1, true);
    await stage.isTheOne(lease);
    const asks = stage.sent.filter(({ command }) => command.includes(stage.keys.lock));
    assertEquals(await lease.release(), true);
    const [ask] = asks;
    assertEquals(ask!.script, "ask");
    assert(await stage.deliver(ask!) < 0, "it is refused");
    assertEquals(await stage.holder(), null);
    await stage.freeAtOnce();
  },
);

scene(
  "keeps the lease of a later call with the same owner id when a clean-up arrives late",
  async (stage) => {
    const answer = new Gate();
    stage.onReply = (reply) => reply === "granted" ? holdBack(answer) : "pass";
    const abort = new AbortController();
    const first = stage.lock.acquire("n", { ownerId: OWNER, signal: abort.signal });
    first.catch(() => {}); // it is awaited later
    await answer.arrived; // the server has granted the lock, the reply is held back
    const caught = intercept(stage, "leave");
    abort.abort();
    await assertRejects(() => first, DOMException);
    answer.open(); // it says that the call has the lock
    await waitUntil("the clean-up is on its way", () => caught() !== undefined);
    stage.onReply = undefined;
    const lease = await within("it is ours still", stage.lock.acquire("n", { ownerId: OWNER }));
    const value = await stage.holder();
    assertEquals(await stage.deliver(caught()!), -1, "it is not meant");
    assertEquals(await stage.holder(), value);
    await stage.isTheOne(lease);
    assertEquals(await lease.release(), true);
    await stage.freeAtOnce();
  },
);

scene(
  "does not release the lock of the next holder when a release is executed twice",
  async (stage) => {
    const { held, waiting } = await stage.queueUp();
    await held.release();
    const lease = await atOnce("it is granted", waiting);
    assertEquals(await lease.release(), true);
    const leave = stage.sent.findLast(({ script }) => script === "leave")!;
    const next = await stage.other.acquire("n");
    assertEquals(await stage.deliver(leave), -1);
    assert((await stage.holder())?.startsWith(next.ownerId));
    await next.renew();
    assertEquals(await next.release(), true);
    await stage.freeAtOnce();
  },
);

scene(
  "keeps the longer life when a shorter renewal is delivered after a longer one",
  async (stage) => {
    const { lock, keys, server: { command } } = stage;
    const lease = await lock.acquire("n");
    const caught = intercept(stage, "renew");
    await within("it is sent again", lease.renew(70_000).catch(() => {}));
    const late = caught();
    assert(late !== undefined, "the first renewal was delayed");
    await within("it is prolonged", lease.renew(600_000));
    assertEquals(await stage.deliver(late), 1);
    assertGreater(Number(await command("PTTL", keys.lock)), 400_000);
    assertGreater(lease.remainingMs, 400_000);
    await stage.isTheOne(lease);
    assertEquals(await lease.release(), true);
    assertEquals(await stage.deliver(late), 0, "it revives nothing");
    assertEquals(await stage.holder(), null);
    await stage.freeAtOnce();
  },
);
