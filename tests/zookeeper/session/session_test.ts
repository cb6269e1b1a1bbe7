import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Instant, instant } from "../../../core/clock.ts";
import { Session } from "../../../zookeeper/session/session.ts";
import { ZooKeeperError } from "../../../zookeeper/transport/errors.ts";
import { FakeClock } from "../../../testing/core/fake_clock.ts";
import { FakeTransport, FakeTree, refusal } from "../../../testing/zookeeper/fake_zookeeper.ts";

const BEAT_PATH = "/locks/%session-x";

function openSession() {
  const clock = new FakeClock();
  const tree = new FakeTree();
  const transport = new FakeTransport(tree);
  const proofs: { sent: Instant; validMs: number }[] = [];
  let overs = 0;
  const session = new Session(transport, {
    clock,
    rootPath: "/locks",
    beatPath: BEAT_PATH,
    onProof: (sent, validMs) => void proofs.push({ sent, validMs }),
    onOver: () => void overs++,
  });
  return { clock, tree, transport, session, proofs, overs: () => overs };
}

Deno.test("an answered write proves the session for three quarters, from when it was sent", async () => {
  const { clock, transport, session, proofs } = openSession();
  const sent = instant(clock);
  transport.answers = () => clock.pass(3_000);
  await session.makePath("/locks");
  assertEquals(proofs, [{ sent, validMs: 7_500 }]);
  assertEquals(session.proof, sent);
  assert(session.isFresh);
  await clock.pass(1_000);
  assert(!session.isFresh, "more than half of its time is over");
});

Deno.test("reads and refusals prove nothing", async () => {
  const { tree, session, proofs } = openSession();
  tree.create("/locks");
  await session.children("/locks");
  await session.get("/locks");
  await assertRejects(() => session.delete("/nothing"), ZooKeeperError);
  assertEquals(proofs, []);
  assert(!session.isFresh);
});

Deno.test("an answer out of order does not move the proof back", async () => {
  const { clock, tree, transport, session } = openSession();
  tree.create("/locks");
  tree.create("/locks/a");
  const slow = Promise.withResolvers<void>();
  transport.answers = () => slow.promise;
  const first = session.delete("/locks/a");
  await clock.pass(500);
  transport.answers = () => {};
  await session.makePath("/b");
  const { nowMs } = session.proof;
  slow.resolve();
  await first;
  assertEquals(session.proof.nowMs, nowMs);
});

Deno.test("the first heartbeat makes its znode, also when somebody deletes it", async () => {
  const { tree, transport, session } = openSession();
  await session.prove();
  await session.prove();
  assertEquals(transport.log, [
    "set",
    `createEphemeral ${BEAT_PATH}`,
    "createPersistent /locks",
    `createEphemeral ${BEAT_PATH}`,
    "set",
  ]);
  tree.delete(BEAT_PATH);
  await session.prove();
  assertEquals(transport.log.slice(-2), ["set", `createEphemeral ${BEAT_PATH}`]);
});

Deno.test("one heartbeat is under way at a time, unless the process was suspended", async () => {
  const { clock, tree, transport, session } = openSession();
  tree.create("/locks");
  tree.create(BEAT_PATH);
  const answer = Promise.withResolvers<void>();
  transport.answers = () => answer.promise;
  const beats = [session.prove(), session.prove()];
  assertEquals(transport.log, ["set"]);
  clock.stepWall(60_000);
  beats.push(session.prove());
  assertEquals(transport.log, ["set", "set"]);
  answer.resolve();
  await Promise.all(beats);
  await session.prove();
  assertEquals(transport.log.length, 3);
});

Deno.test("a proof from before a suspension is not fresh", async () => {
  const { clock, session } = openSession();
  await session.makePath("/locks");
  assert(session.isFresh);
  clock.stepWall(1_000);
  assert(!session.isFresh);
});

Deno.test("a session is given up when it was suspended for its timeout, not before", async () => {
  const { clock, transport, session, overs } = openSession();
  session.onState("suspended");
  await clock.pass(9_000);
  session.onState("connected");
  await clock.pass(9_000);
  assert(!session.isOver);
  session.onState("suspended");
  await clock.pass(10_000);
  assert(session.isOver && transport.isDestroyed);
  assertEquals(overs(), 1);
  assertEquals(clock.timers, 0);
  assert(!session.isForgotten, "the server may still keep it");
  await clock.pass(20_001);
  assert(session.isForgotten);
});

Deno.test("an expired session is over, and all are told once", async () => {
  const { transport, session, proofs, overs } = openSession();
  let changes = 0;
  const stop = session.onChange(() => void changes++);
  const late = Promise.withResolvers<void>();
  transport.answers = () => late.promise;
  const write = session.makePath("/locks");
  session.onState("expired");
  assert(session.isOver && session.isForgotten && transport.isDestroyed);
  session.lapse();
  assertEquals(overs(), 1);
  assert(changes > 0);
  stop();
  late.resolve();
  await write;
  assertEquals(proofs, [], "a late answer must not prolong what is lost");
});

Deno.test("a server that grants another timeout ends the session", () => {
  const { transport, session, overs } = openSession();
  session.onState("suspended");
  transport.timeoutMs = 4_000;
  session.onState("connected");
  assert(session.isOver);
  assertEquals(overs(), 1);
});

Deno.test("a ping asks only if nothing was answered lately, and any answer will do", async () => {
  const { clock, transport, session } = openSession();
  await session.ping();
  assertEquals(transport.log, []);
  await clock.pass(session.pingEveryMs);
  await session.ping(); // There is no root path, and the server says so.
  assertEquals(transport.log, ["get"]);
  await session.ping();
  assertEquals(transport.log, ["get"]);
  await clock.pass(session.pingEveryMs);
  transport.answers = () => {
    throw refusal("TIMEOUT");
  };
  await assertRejects(() => session.ping(), ZooKeeperError);
});
