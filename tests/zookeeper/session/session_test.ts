import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Instant, instant } from "../../../core/time/clock.ts";
import { Session } from "../../../zookeeper/session/session.ts";
import { ZooKeeperError } from "../../../zookeeper/connection/failures.ts";
import { FakeClock } from "../../../testing/core/fake_clock.ts";
import { FakeTransport, FakeTree, refusal } from "../../../testing/zookeeper/fake_zookeeper.ts";

const HEARTBEAT_PATH = "/locks/%session-x";

function openSession() {
  const clock = new FakeClock();
  const tree = new FakeTree();
  const transport = new FakeTransport(tree);
  const extensions: { sent: Instant; validMs: number }[] = [];
  const losses: string[] = [];
  const session = new Session(transport, {
    clock,
    rootPath: "/locks",
    heartbeatPath: HEARTBEAT_PATH,
    leases: {
      extendAll: (sent, validMs) => void extensions.push({ sent, validMs }),
      loseAll: (reason) => void losses.push(reason),
    },
  });
  return { clock, tree, transport, session, extensions, losses };
}

Deno.test("Session.validity lasts for three quarters of the timeout from when an answered write was sent", async () => {
  const { clock, transport, session, extensions } = openSession();
  const sent = instant(clock);
  transport.answers = () => clock.pass(3_000);
  await session.requests.makePath("/locks");
  assertEquals(extensions, [{ sent, validMs: 7_500 }]);
  assertEquals(session.validity.lastProvenAt, sent);
  assert(session.validity.isRecent);
  await clock.pass(1_000);
  assert(!session.validity.isRecent, "more than half of the validity is over");
});

Deno.test("Session.validity extends all leases at few of many writes, and after a suspension at the next one", async () => {
  const { clock, tree, session, extensions } = openSession();
  tree.create("/locks");
  tree.create(HEARTBEAT_PATH);
  for (let i = 0; i < 100; i++) {
    await session.sendHeartbeat();
    await clock.pass(10);
  }
  assert(extensions.length <= 2, `${extensions.length} extensions in a tenth of the timeout`);
  assert(clock.now() - extensions.at(-1)!.sent.nowMs < session.timeoutMs / 10);
  assertEquals(session.validity.lastProvenAt.nowMs, clock.now() - 10);
  const soFar = extensions.length;
  clock.stepWall(60_000);
  await session.sendHeartbeat();
  assertEquals(extensions.length, soFar + 1);
});

Deno.test("Session.validity is not extended by reads, nor by refusals of a server that may not have asked the leader", async () => {
  const { tree, transport, session, extensions } = openSession();
  tree.create("/locks");
  await session.requests.children("/locks");
  await session.requests.get("/locks");
  await assertRejects(() => session.requests.get("/nothing"), ZooKeeperError);
  for (const code of ["THROTTLED", "READ_ONLY", "REFUSED", "QUOTA_EXCEEDED", "TIMEOUT"] as const) {
    transport.answers = () => Promise.reject(refusal(code));
    await assertRejects(() => session.requests.delete("/locks"), ZooKeeperError);
  }
  assertEquals(extensions, []);
  assert(!session.validity.isRecent);
});

for (const code of ["NO_AUTH", "NO_NODE", "NODE_EXISTS", "NOT_EMPTY"] as const) {
  Deno.test(`Session.validity is extended by a write that the leader refuses (${code})`, async () => {
    const { clock, transport, session, extensions } = openSession();
    const sent = instant(clock);
    transport.answers = () => clock.pass(1_000).then(() => Promise.reject(refusal(code)));
    await assertRejects(() => session.requests.delete("/locks"), ZooKeeperError);
    assertEquals(extensions, [{ sent, validMs: 7_500 }]);
  });
}

Deno.test("Session.sendHeartbeat() proves the session when it is refused, also when its znode is gone for good", async () => {
  const { clock, tree, transport, session, extensions } = openSession();
  tree.create("/locks");
  transport.answers = () => Promise.reject(refusal("NO_AUTH"));
  await session.sendHeartbeat();
  await clock.pass(3_000);
  transport.answers = (request) => {
    throw refusal(request === "set" ? "NO_NODE" : "NO_AUTH");
  };
  await session.sendHeartbeat();
  assertEquals(extensions.length, 2);
});

Deno.test("Session.prepareHeartbeat() creates its znode once, and rejects when that is refused", async () => {
  const { tree, transport, session } = openSession();
  tree.create("/locks");
  transport.answers = () => Promise.reject(refusal("NO_AUTH"));
  await assertRejects(() => session.prepareHeartbeat()!, ZooKeeperError);
  transport.answers = () => {};
  await Promise.all([session.prepareHeartbeat(), session.prepareHeartbeat()]);
  assertEquals(session.prepareHeartbeat(), null);
  assertEquals(transport.log, Array.from({ length: 2 }, () => `createEphemeral ${HEARTBEAT_PATH}`));
});

Deno.test("Session.requests.createEphemeral() sends a create ten times when its parent is deleted each time", async () => {
  const { transport, session } = openSession();
  transport.answers = (request) => {
    if (request.startsWith("createEphemeral")) throw refusal("NO_NODE");
  };
  await assertRejects(() => session.requests.createEphemeral(HEARTBEAT_PATH), ZooKeeperError);
  const creates = transport.log.filter((request) => request.startsWith("createEphemeral"));
  assertEquals(creates.length, 10);
});

Deno.test("Session.validity does not go back when an answer is out of order", async () => {
  const { clock, tree, transport, session } = openSession();
  tree.create("/locks");
  tree.create("/locks/a");
  const slow = Promise.withResolvers<void>();
  transport.answers = () => slow.promise;
  const first = session.requests.delete("/locks/a");
  await clock.pass(500);
  transport.answers = () => {};
  await session.requests.makePath("/b");
  const { nowMs } = session.validity.lastProvenAt;
  slow.resolve();
  await first;
  assertEquals(session.validity.lastProvenAt.nowMs, nowMs);
});

Deno.test("Session.sendHeartbeat() creates its znode when it is missing", async () => {
  const { tree, transport, session } = openSession();
  await session.sendHeartbeat();
  await session.sendHeartbeat();
  assertEquals(transport.log, [
    "set",
    `createEphemeral ${HEARTBEAT_PATH}`,
    "createPersistent /locks",
    `createEphemeral ${HEARTBEAT_PATH}`,
    "set",
  ]);
  tree.delete(HEARTBEAT_PATH);
  await session.sendHeartbeat();
  assertEquals(transport.log.slice(-2), ["set", `createEphemeral ${HEARTBEAT_PATH}`]);
});

Deno.test("Session.sendHeartbeat() shares a pending heartbeat, unless the process was suspended", async () => {
  const { clock, tree, transport, session } = openSession();
  tree.create("/locks");
  tree.create(HEARTBEAT_PATH);
  const answer = Promise.withResolvers<void>();
  transport.answers = () => answer.promise;
  const beats = [session.sendHeartbeat(), session.sendHeartbeat()];
  assertEquals(transport.log, ["set"]);
  clock.stepWall(60_000);
  beats.push(session.sendHeartbeat());
  assertEquals(transport.log, ["set", "set"]);
  answer.resolve();
  await Promise.all(beats);
  await session.sendHeartbeat();
  assertEquals(transport.log.length, 3);
});

Deno.test("Session.validity is not recent after a suspension of the process", async () => {
  const { clock, session } = openSession();
  await session.requests.makePath("/locks");
  assert(session.validity.isRecent);
  clock.stepWall(1_000);
  assert(!session.validity.isRecent);
});

Deno.test("Session is over when it had no connection for its timeout, not before", async () => {
  const { clock, transport, session, losses } = openSession();
  transport.become("suspended");
  await clock.pass(9_000);
  transport.become("connected");
  await clock.pass(9_000);
  assert(!session.isOver);
  transport.become("suspended");
  await clock.pass(10_000);
  assert(session.isOver && transport.isDestroyed);
  assertEquals(losses, ["session-expired"]);
  assertEquals(clock.timers, 0);
  assert(!session.validity.isDroppedByServer, "the server may still keep it");
  await clock.pass(20_001);
  assert(session.validity.isDroppedByServer);
});

Deno.test("Session is over when it expires, and loses its leases once", async () => {
  const { transport, session, extensions, losses } = openSession();
  let changes = 0;
  const listener = { onSessionChange: () => void changes++ };
  session.addListener(listener);
  const late = Promise.withResolvers<void>();
  transport.answers = () => late.promise;
  const write = session.requests.makePath("/locks");
  transport.become("expired");
  assert(session.isOver && session.validity.isDroppedByServer && transport.isDestroyed);
  session.giveUp();
  assertEquals(losses, ["session-expired"]);
  assert(changes > 0);
  session.removeListener(listener);
  late.resolve();
  await write;
  assertEquals(extensions, [], "a late answer should not extend a lost session");
});

Deno.test("Session is over when a server grants another timeout", () => {
  const { transport, session, losses } = openSession();
  transport.become("suspended");
  transport.timeoutMs = 4_000;
  transport.become("connected");
  assert(session.isOver);
  assertEquals(losses, ["session-expired"]);
});

Deno.test("Session.checkServer() sends a request only when nothing arrived recently, and accepts any answer", async () => {
  const { transport, session } = openSession();
  await session.checkServer();
  assertEquals(transport.log, []);
  transport.silentMs = session.checkEveryMs;
  await session.checkServer(); // There is no root path, and the server says so.
  assertEquals(transport.log, ["get"]);
  transport.silentMs = 0;
  await session.checkServer();
  assertEquals(transport.log, ["get"]);
  transport.silentMs = session.checkEveryMs;
  transport.answers = () => {
    throw refusal("TIMEOUT");
  };
  await assertRejects(() => session.checkServer(), ZooKeeperError);
});

Deno.test("Session is over when nothing has arrived from the server for the session timeout", async () => {
  const { clock, transport, session, losses } = openSession();
  for (let i = 0; i < 10; i++) {
    transport.silentMs = 9_000;
    await clock.pass(5_000);
  }
  assert(!session.isOver);
  transport.silentMs = 10_000;
  await clock.pass(1_001);
  assert(session.isOver);
  assert(transport.isDestroyed);
  assertEquals(losses, ["session-expired"]);
  assertEquals(clock.timers, 0);
});

Deno.test("Session does not keep the process alive by its watch on the server, and ends it when closed", async () => {
  const { clock, session } = openSession();
  assertEquals(clock.held, 0);
  await session.close(1_000);
  assertEquals(clock.timers, 0);
});
