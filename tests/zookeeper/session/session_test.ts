import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Instant, instant } from "../../../core/time/clock.ts";
import { Session, type SessionLeases } from "../../../zookeeper/session/session.ts";
import { ZooKeeperError } from "../../../zookeeper/connection/failures.ts";
import type { Request } from "../../../zookeeper/connection/wire.ts";
import { FakeClock } from "../../../testing/core/fake_clock.ts";
import {
  FakeTransport,
  FakeTree,
  refusal,
  ROOT_PATH,
  settle,
} from "../../../testing/zookeeper/fake_zookeeper.ts";

function openSession() {
  const clock = new FakeClock();
  const tree = new FakeTree();
  const transport = new FakeTransport(tree);
  const extensions: { sent: Instant; validMs: number }[] = [];
  const losses: string[] = [];
  const causes: unknown[] = [];
  const leases: SessionLeases = {
    clock,
    extendAll: (sent, validMs) => void extensions.push({ sent, validMs }),
    loseAll(reason, cause) {
      losses.push(reason);
      causes.push(cause);
    },
  };
  const session = new Session(transport, leases, ROOT_PATH, true);
  return { clock, tree, transport, session, extensions, losses, causes };
}

Deno.test("Session is valid for its timeout from its beginning when a write is answered", async () => {
  const { clock, transport, session, extensions } = openSession();
  const sent = instant(clock);
  transport.answers = () => clock.pass(3_000);
  await session.makePath("/locks");
  assertEquals(extensions, [{ sent, validMs: 10_000 }]);
  assertEquals(session.proof, { sent, validMs: 10_000 });
  assert(session.isProvenRecently);
  await clock.pass(4_500);
  assert(!session.isProvenRecently, "less than a quarter of the timeout is left");
});

Deno.test("Session is valid for its timeout from the last sign of life that was answered T/4 before the write", async () => {
  const { clock, tree, transport, session, extensions } = openSession();
  tree.create("/locks");
  await clock.pass(2_000);
  const ping = instant(clock);
  await clock.pass(1_000);
  transport.pong(ping); // It may have arrived just now.
  await clock.pass(2_000);
  await session.makePath("/a");
  // T/4 after the answer to the ping, a report has told the leader.
  await clock.pass(500);
  await session.makePath("/b");
  await clock.pass(1_500);
  transport.pong(instant(clock));
  await clock.pass(500);
  await session.get("/locks"); // too late for a report before the next write
  await session.makePath("/c");
  assertEquals(extensions.map(({ sent, validMs }) => sent.nowMs + validMs - 1_000), [
    10_000 - 5_000 * 0.01,
    12_000 - 3_500 * 0.01,
    15_000 - 2_500 * 0.01,
  ]);
});

Deno.test("Session is valid for two thirds of its timeout from each of its heartbeats", async () => {
  const { clock, tree, session } = openSession();
  tree.create("/locks");
  tree.create(session.heartbeatPath);
  for (let i = 0; i < 10; i++) {
    await session.sendHeartbeat();
    await clock.pass(session.heartbeatEveryMs);
  }
  assertEquals(Math.round(session.proof.validMs / 100), 66);
});

Deno.test("Session is proven by its heartbeats while the answers to thousands of earlier requests come in", async () => {
  const { clock, tree, transport, session } = openSession();
  tree.create("/locks");
  tree.create(session.heartbeatPath);
  const flood = Array.from({ length: 200 }, () => Promise.withResolvers<void>());
  let sent = 0;
  transport.answers = (request) => request === "get" ? flood[sent++]!.promise : undefined;
  const reads = flood.map(() => session.get("/locks"));
  for (const [i, { resolve }] of flood.entries()) {
    await clock.pass(100);
    resolve();
    if (i % 16 === 0) await session.sendHeartbeat();
  }
  await Promise.all(reads);
  assert(session.proof.validMs > 6_000, `${session.proof.validMs}`);
});

Deno.test("Session is valid for as much less as the process was suspended since the sign of life", async () => {
  const { clock, tree, session, extensions } = openSession();
  tree.create("/locks");
  await clock.pass(1_000);
  clock.stepWall(4_000);
  await session.makePath("/a");
  assertEquals(session.proof.validMs, 10_000 - 5_000 * 1.01);
  clock.stepWall(3_600_000); // Nothing outlives that: the clock was set.
  await clock.pass(500);
  await session.makePath("/b");
  assertEquals(session.proof.validMs, 10_000 - 1_500 * 1.01);
  assertEquals(extensions.length, 2);
});

Deno.test("Session counts from the request with which a server has accepted it again", async () => {
  const { clock, tree, transport, session } = openSession();
  tree.create("/locks");
  await session.makePath("/a");
  await clock.pass(6_000);
  transport.become("suspended");
  await clock.pass(1_000);
  transport.requestedAt = instant(clock);
  await clock.pass(1_000);
  transport.become("connected");
  await session.makePath("/b");
  assertEquals(session.proof.validMs, 10_000 - 1_000 * 1.01);
});

Deno.test("Session is not proven by a write that is answered long after its timeout", async () => {
  const { clock, tree, transport, session, extensions } = openSession();
  tree.create("/locks");
  const answered = Promise.withResolvers<void>();
  transport.answers = () => answered.promise;
  const write = session.makePath("/a");
  for (let i = 0; i < 100; i++) {
    await clock.pass(1_000);
    transport.pong(instant(clock));
  }
  answered.resolve();
  await write;
  assertEquals(extensions, []);
});

Deno.test("Session extends all leases at few of many writes, and after a suspension at the next one", async () => {
  const { clock, tree, session, extensions } = openSession();
  tree.create("/locks");
  tree.create(session.heartbeatPath);
  for (let i = 0; i < 100; i++) {
    await session.sendHeartbeat();
    await clock.pass(10);
  }
  assert(extensions.length <= 2, `${extensions.length} extensions in a tenth of the timeout`);
  assert(clock.now() - extensions.at(-1)!.sent.nowMs < session.timeoutMs / 10);
  assertEquals(session.proof.sent.nowMs, clock.now() - 10);
  const soFar = extensions.length;
  clock.stepWall(60_000);
  await session.sendHeartbeat();
  assertEquals(extensions.length, soFar + 1);
});

Deno.test("Session is not extended by reads, nor by refusals of a server that may not have asked the leader", async () => {
  const { tree, transport, session, extensions } = openSession();
  tree.create("/locks");
  await session.children("/locks");
  await session.get("/locks");
  await assertRejects(() => session.get("/nothing"), ZooKeeperError);
  for (const code of ["THROTTLED", "READ_ONLY", "REFUSED", "QUOTA_EXCEEDED", "TIMEOUT"] as const) {
    transport.answers = () => Promise.reject(refusal(code));
    await assertRejects(() => session.delete("/locks"), ZooKeeperError);
  }
  assertEquals(extensions, []);
  assert(!session.isProvenRecently);
});

for (const code of ["NO_AUTH", "NO_NODE", "NODE_EXISTS", "NOT_EMPTY"] as const) {
  Deno.test(`Session is extended by a write that the leader refuses (${code})`, async () => {
    const { clock, transport, session, extensions } = openSession();
    const sent = instant(clock);
    transport.answers = () => clock.pass(1_000).then(() => Promise.reject(refusal(code)));
    await assertRejects(() => session.delete("/locks"), ZooKeeperError);
    assertEquals(extensions, [{ sent, validMs: 10_000 }]);
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
  assertEquals(
    transport.log,
    Array.from({ length: 2 }, () => `createEphemeral ${session.heartbeatPath}`),
  );
});

Deno.test("Session.prepareHeartbeat() sends a create ten times when its parent is deleted each time", async () => {
  const { transport, session } = openSession();
  transport.answers = (request) => {
    if (request.startsWith("createEphemeral")) throw refusal("NO_NODE");
  };
  await assertRejects(() => session.prepareHeartbeat()!, ZooKeeperError);
  const creates = transport.log.filter((request) => request.startsWith("createEphemeral"));
  assertEquals(creates.length, 10);
});

Deno.test("Session is not proven for a shorter time when an answer is out of order", async () => {
  const { clock, tree, transport, session } = openSession();
  tree.create("/locks");
  tree.create("/locks/a");
  const slow = Promise.withResolvers<void>();
  transport.answers = () => slow.promise;
  const first = session.delete("/locks/a");
  await clock.pass(500);
  transport.answers = () => {};
  await session.makePath("/b");
  const { nowMs } = session.proof.sent;
  slow.resolve();
  await first;
  assertEquals(session.proof.sent.nowMs, nowMs);
});

Deno.test("Session.sendHeartbeat() creates its znode when it is missing", async () => {
  const { tree, transport, session } = openSession();
  await session.sendHeartbeat();
  await session.sendHeartbeat();
  assertEquals(transport.log, [
    "set",
    `createEphemeral ${session.heartbeatPath}`,
    "createPersistent /locks",
    `createEphemeral ${session.heartbeatPath}`,
    "set",
  ]);
  tree.delete(session.heartbeatPath);
  await session.sendHeartbeat();
  assertEquals(transport.log.slice(-2), ["set", `createEphemeral ${session.heartbeatPath}`]);
});

Deno.test("Session.sendHeartbeat() shares a pending heartbeat, unless the process was suspended", async () => {
  const { clock, tree, transport, session } = openSession();
  tree.create("/locks");
  tree.create(session.heartbeatPath);
  const answer = Promise.withResolvers<void>();
  transport.answers = () => answer.promise;
  const beats = [session.sendHeartbeat(), session.sendHeartbeat()];
  assertEquals(transport.log, ["set"]);
  clock.stepWall(60_000);
  const later = Promise.withResolvers<void>();
  transport.answers = () => later.promise;
  beats.push(session.sendHeartbeat());
  assertEquals(transport.log, ["set", "set"]);
  answer.resolve();
  await Promise.all(beats.slice(0, 2));
  beats.push(session.sendHeartbeat());
  assertEquals(transport.log, ["set", "set"]);
  later.resolve();
  await Promise.all(beats);
  await session.sendHeartbeat();
  assertEquals(transport.log.length, 3);
});

Deno.test("Session.isProvenRecently is false after a suspension of the process", async () => {
  const { clock, session } = openSession();
  await session.makePath("/locks");
  assert(session.isProvenRecently);
  clock.stepWall(1_000);
  assert(!session.isProvenRecently);
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
  await clock.pass(100_000);
  assert(!session.isDroppedByServer, "the server may still keep it");
});

Deno.test("Session is over when it expires, and loses its leases once", async () => {
  const { transport, session, extensions, losses } = openSession();
  let changes = 0;
  const listener = { onChange: () => void changes++ };
  session.listen(listener);
  const late = Promise.withResolvers<void>();
  transport.answers = () => late.promise;
  const write = session.makePath("/locks");
  transport.become("expired");
  assert(session.isOver && session.isDroppedByServer && transport.isDestroyed);
  session.lose();
  await session.close(0);
  assert(session.isDroppedByServer, "the server has said so");
  assertEquals(losses, ["session-expired"]);
  assert(changes > 0);
  session.unlisten(listener);
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

Deno.test("Session asks the server while it has listeners, if no sign of life was sent recently, one request at a time", async () => {
  const { clock, transport, session } = openSession();
  const asksIn = async (durationMs: number) => {
    const before = transport.log.length;
    await clock.pass(durationMs);
    return transport.log.slice(before);
  };
  const { checkEveryMs, timeoutMs } = session;
  assert(checkEveryMs < timeoutMs / 3, "sooner than the client package sends a ping");
  const listener = { onChange: () => {} };
  session.listen(listener);
  assertEquals(await asksIn(checkEveryMs - 1), []);
  assertEquals(await asksIn(1), ["get"]); // There is no root path, and the server says so.
  await clock.pass(checkEveryMs / 2);
  transport.pong(instant(clock));
  assertEquals(await asksIn(checkEveryMs - 1), []);
  const answer = Promise.withResolvers<void>();
  transport.answers = () => answer.promise;
  assertEquals(await asksIn(1), ["get"]);
  assertEquals(await asksIn(checkEveryMs), []);
  answer.reject(refusal("TIMEOUT"));
  transport.answers = () => {};
  assertEquals(await asksIn(checkEveryMs), ["get"]);
  session.unlisten(listener);
  assertEquals(await asksIn(checkEveryMs * 2), []);
  session.listen(listener);
  assertEquals(await asksIn(checkEveryMs), ["get"]);
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

Deno.test("Session reads an answer that has waited in the socket before it ends for silence", async () => {
  const { clock, transport, session, losses } = openSession();
  transport.silentMs = session.timeoutMs;
  // The event loop was blocked: all timers are due, and the answer is read after the first of them.
  clock.schedule(() => transport.silentMs = 0, session.timeoutMs);
  await clock.pass(session.timeoutMs);
  assert(!session.isOver);
  assertEquals(losses, []);
  await session.close(0);
});

Deno.test("Session.children() has one listing of a znode under way and one queued, which calls share", async () => {
  const { tree, transport, session } = openSession();
  for (const path of ["/locks", "/locks/a", "/locks/b"]) tree.create(path);
  const answered = Promise.withResolvers<void>();
  transport.answers = () => answered.promise;
  const first = session.children("/locks/a");
  tree.create("/locks/a/late");
  const others = Array.from({ length: 300 }, () => session.children("/locks/a"));
  const another = session.children("/locks/b");
  assertEquals(transport.log.length, 2);
  answered.resolve();
  assertEquals((await first).names, []);
  for (const other of others) assertEquals((await other).names, ["late"]);
  assertEquals((await another).names, []);
  assertEquals(transport.log.length, 3);
  const alone = session.children("/locks/a");
  assertEquals(transport.log.length, 4, "it is sent at once");
  await alone;
});

Deno.test("Session.children() sends no third listing for a call that the answer to the first one causes", async () => {
  const { tree, transport, session } = openSession();
  tree.create("/locks");
  const first = session.children("/locks").then(() => session.children("/locks"));
  const second = session.children("/locks");
  assertEquals((await first).names, (await second).names);
  assertEquals(transport.log.length, 2);
});

Deno.test("Session.children() sends the queued listing also when the one under way fails", async () => {
  const { tree, transport, session } = openSession();
  tree.create("/locks");
  transport.answers = () => {
    transport.answers = () => {};
    throw refusal("CONNECTION_LOSS");
  };
  const [first, second] = [session.children("/locks"), session.children("/locks")];
  await assertRejects(() => first, ZooKeeperError);
  assertEquals((await second).names, []);
  assertEquals(transport.log.length, 2);
});

Deno.test("Session does not keep the process alive by its watch on the server, and ends it when closed", async () => {
  const { clock, transport, session } = openSession();
  for (let i = 0; i < 2; i++) session.listen({ onChange: () => {} });
  // The limit of the server's silence, and one check for all listeners.
  assertEquals([clock.timers, clock.held], [2, 0]);
  await session.close(1_000);
  assertEquals(clock.timers, 0);
  assert(session.isOver && !session.isDroppedByServer);
  // The transport may connect once more, to close the session at the server.
  transport.become("connected");
  assertEquals(clock.timers, 0);
});

Deno.test("Session sets no timer for a listener that comes after its end", async () => {
  const { clock, session } = openSession();
  await session.close(1_000);
  session.listen({ onChange: () => {} });
  assertEquals(clock.timers, 0);
});

Deno.test("Session.reconnected() resolves with each next connection, and rejects at the end", async () => {
  const { transport, session } = openSession();
  await session.reconnected();
  for (let i = 0; i < 2; i++) {
    transport.become("suspended");
    let isBack = false;
    const back = session.reconnected().then(() => isBack = true);
    await settle();
    assertEquals(isBack, false);
    transport.become("connected");
    await back;
  }
  transport.become("suspended");
  const waiting = session.reconnected();
  session.lose();
  await assertRejects(() => waiting, ZooKeeperError);
  await assertRejects(() => session.reconnected(), ZooKeeperError);
});

Deno.test("Session knows when the server last answered or refused, and is proven by a create, not by a heartbeat without an answer", async () => {
  const { clock, transport, session } = openSession();
  await clock.pass(100);
  await session.createSequential("/a-", new Uint8Array());
  assertEquals(session.proof.sent, instant(clock));
  assertEquals(session.lastAnswerMs, clock.now());
  await clock.pass(100);
  const watcher = { onWatchEvent: () => {} };
  await assertRejects(() => session.get("/nothing", watcher), ZooKeeperError);
  assertEquals([transport.watcherCount, session.watches.size], [0, 0]);
  const answeredMs = clock.now();
  assertEquals(session.lastAnswerMs, answeredMs);
  transport.answers = () => Promise.reject(refusal("CONNECTION_LOSS"));
  await clock.pass(100);
  await assertRejects(() => session.sendHeartbeat(), ZooKeeperError);
  assertEquals(session.lastAnswerMs, answeredMs);
});

Deno.test("Session tells its leases why there was no connection, unless the server has ended it", () => {
  for (const isExpired of [false, true]) {
    const { transport, session, causes } = openSession();
    const error = transport.connectError = new Error("no server listens");
    if (isExpired) transport.become("expired");
    else session.lose();
    assertEquals(causes, [isExpired ? undefined : error]);
  }
});

Deno.test("Session sends a heartbeat, and the create of its znode, before the requests that wait for their turn", async () => {
  const { tree, transport, session } = openSession();
  tree.create("/locks");
  const urgent: number[] = [];
  const { send } = transport.requests;
  transport.requests.send = <T>(request: Request<T>, isUrgent?: boolean) => {
    if (isUrgent) urgent.push(request.bytes.readInt32BE(8));
    return send(request);
  };
  await session.makePath("/locks/n");
  await session.sendHeartbeat();
  const [create, set] = [1, 5]; // the types of these requests
  assertEquals(urgent, [set, create]);
});
