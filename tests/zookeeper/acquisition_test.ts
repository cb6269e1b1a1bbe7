/**
 * One call on servers in memory, which answer as real ones cannot be made to. Calls of one instance that wait
 * for the same lock are in `recipe/instance_queue_test.ts`.
 *
 * @module
 */
import { assert, assertEquals, assertInstanceOf, assertRejects } from "@std/assert";
import {
  LeaseLostError,
  LockSetupError,
  LockUnavailableError,
} from "../../core/contract/errors.ts";
import { instant } from "../../core/time/clock.ts";
import { MAX_SEQUENCE } from "../../zookeeper/recipe/queue_order.ts";
import type { ZooKeeperError } from "../../zookeeper/connection/failures.ts";
import { countListeners } from "../../testing/core/count_listeners.ts";
import { collectRejections } from "../../testing/runtime/reports.ts";
import { type FakeCall, FakeInstance } from "../../testing/zookeeper/fake_instance.ts";
import { FakeTree, refusal, settle } from "../../testing/zookeeper/fake_zookeeper.ts";

const PARENT = "/locks/n";

function newTree(): FakeTree {
  const tree = new FakeTree();
  tree.create("/locks");
  tree.create(PARENT);
  return tree;
}

/** Instances on one tree. */
function open(tree: FakeTree, count: 1): Promise<[FakeInstance]>;
function open(tree: FakeTree, count: 2): Promise<[FakeInstance, FakeInstance]>;
function open(tree: FakeTree, count: 3): Promise<[FakeInstance, FakeInstance, FakeInstance]>;
function open(tree: FakeTree, count: number): Promise<FakeInstance[]> {
  return Promise.all(Array.from({ length: count }, () => FakeInstance.open(tree)));
}

function queueOf(tree: FakeTree): string[] {
  return tree.children(PARENT).names.filter((name) => name.startsWith("_c_"));
}

function tokenOf(tree: FakeTree, { path }: FakeCall): bigint {
  return tree.get(path).czxid;
}

Deno.test("Acquisition sends the create and the listing in one tick, and no more when alone", async () => {
  const tree = newTree();
  const [a] = await open(tree, 1);
  const call = a.call();
  assertEquals(a.transport.log, ["create", "children"]);
  const lease = await call.lease;
  assertEquals(lease!.fencingToken, tokenOf(tree, call));
  assertEquals(a.transport.log.length, 2);
});

Deno.test("Acquisition creates the lock's znode only when it is missing", async () => {
  const tree = new FakeTree();
  tree.create("/locks");
  const [a] = await open(tree, 1);
  await a.call().lease;
  assertEquals(a.transport.log, [
    ...["create", "children"],
    "createPersistent /locks/n",
    ...["create", "children"],
  ]);
});

Deno.test("Acquisition sends nothing when the only znode ahead is deleted", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  const first = a.call();
  await first.lease;
  const second = b.call();
  await settle();
  assertEquals(b.transport.log, ["create", "children", "get", "get"]);
  assertEquals(b.clock.held, 0);
  await first.release();
  const lease = await second.lease;
  assertEquals(b.transport.log.length, 4);
  assertEquals(lease!.fencingToken, tokenOf(tree, second));
});

Deno.test("Acquisition lists the queue again when another waiter leaves", async () => {
  const tree = newTree();
  const [a, b, c] = await open(tree, 3);
  const holder = a.call();
  await holder.lease;
  const earlier = b.call();
  await settle();
  const call = c.call();
  await settle();
  await earlier.giveUp();
  assertEquals(call.infos, [{ position: 2, waiters: 2 }, { position: 1, waiters: 1 }]);
  assertEquals(c.transport.log.slice(4), ["children", "get"]);
  await holder.release();
  await call.lease;
});

Deno.test("Acquisition lists the queue again, and is not granted the lock, when the holder's znode changes", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  const holder = a.call();
  await holder.lease;
  const call = b.call();
  await settle();
  b.transport.fireChanged(holder.path);
  await settle();
  assertEquals(call.granted, false);
  assertEquals(b.transport.log.slice(4), ["children", "get"]);
  await holder.release();
  await call.lease;
});

Deno.test("Acquisition reports each position once", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  const holder = a.call();
  await holder.lease;
  const call = b.call();
  await settle();
  b.transport.become("connected"); // Wakes the waiter, which lists the queue again.
  await settle();
  assertEquals(b.transport.log.filter((request) => request === "children").length, 2);
  assertEquals(call.infos.map(({ position }) => position), [1]);
  await holder.release();
  await call.lease;
});

Deno.test("Acquisition of tryAcquire() ends at once behind a holder or a waiter", async () => {
  const tree = newTree();
  const [a, b, c] = await open(tree, 3);
  const holder = a.call();
  await holder.lease;
  assertEquals(await b.call({ isTry: true }).lease, null);
  assertEquals(b.transport.log, ["create", "children", "delete"]);
  await holder.release();
  // The holder alone would not end it, as it could be a tryAcquire() that fails.
  await a.call({ isTry: true }).lease;
  b.call();
  await settle();
  assertEquals(await c.call({ isTry: true }).lease, null);
  assertEquals(c.transport.log, ["create", "children", "delete"]);
});

Deno.test("Acquisition of tryAcquire() gets the lock when an earlier tryAcquire() without the lock leaves", async () => {
  const tree = newTree();
  const [a, b, c] = await open(tree, 3);
  const holder = a.call();
  await holder.lease;
  const deleted = Promise.withResolvers<void>();
  b.transport.deletesAfter = deleted.promise;
  const failed = b.call({ isTry: true });
  await settle();
  await holder.release();
  const call = c.call({ isTry: true });
  await settle();
  assertEquals(call.granted, false);
  deleted.resolve();
  assertEquals(await failed.lease, null);
  const lease = await call.lease;
  assertEquals(lease!.fencingToken, tokenOf(tree, call));
  await call.release();
  assertEquals(c.clock.held, 0);
});

Deno.test("Acquisition of a shared tryAcquire() waits 100 ms for an exclusive one to leave", async () => {
  const tree = newTree();
  const [a, b, c] = await open(tree, 3);
  await a.call({ mode: "shared" }).lease;
  for (const isInTime of [true, false]) {
    const deleted = Promise.withResolvers<void>();
    b.transport.deletesAfter = deleted.promise;
    const failed = b.call({ isTry: true });
    await settle();
    const call = c.call({ isTry: true, mode: "shared" });
    await settle();
    assertEquals([call.granted, c.clock.held], [false, 1]);
    if (isInTime) deleted.resolve();
    else await c.clock.pass(101);
    assertEquals(await call.lease !== null, isInTime);
    if (isInTime) await call.release();
    deleted.resolve();
    assertEquals(await failed.lease, null);
  }
});

Deno.test("Acquisition of tryAcquire() returns null when an earlier tryAcquire() holds the lock", async () => {
  const tree = newTree();
  const [a, b, c] = await open(tree, 3);
  assert(await a.call({ isTry: true }).lease !== null);
  const call = b.call({ isTry: true });
  await settle();
  assertEquals(b.clock.held, 1);
  await b.clock.pass(101);
  assertEquals(await call.lease, null);
  assertEquals(b.clock.held, 0);
  // By now its znode is too old: it must be the holder's.
  tree.nowMs = 101;
  const late = c.call({ isTry: true });
  await settle();
  await c.clock.pass(0);
  assertEquals(await late.lease, null);
  assertEquals(c.transport.log, ["create", "children", "get", "get", "delete"]);
  assertEquals(c.clock.held, 0);
});

Deno.test("Acquisition lists the queue again on another connection", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  const holder = a.call();
  await holder.lease;
  const call = b.call();
  await settle();
  b.transport.epoch++;
  await holder.release();
  await call.lease;
  assertEquals(b.transport.log.at(-1), "children");
  assertEquals(call.infos, [{ position: 1, waiters: 1 }], "the holder has no position");
});

Deno.test("Acquisition starts over if its znode is deleted before or after the one ahead", async () => {
  for (const isOwnFirst of [true, false]) {
    const tree = newTree();
    const [a, b] = await open(tree, 2);
    const holder = a.call();
    await holder.lease;
    const call = b.call();
    await settle();
    const paths = [holder.path, call.path];
    for (const path of isOwnFirst ? paths.reverse() : paths) tree.delete(path);
    await settle();
    await b.clock.pass(100);
    const lease = await call.lease;
    assertEquals(b.transport.created.length, 2);
    assertEquals(lease!.fencingToken, tree.get(b.transport.created[1]!).czxid);
  }
});

Deno.test("Acquisition starts over at the end of the queue if only its znode is deleted", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  await a.call().lease;
  const call = b.call();
  await settle();
  tree.delete(call.path);
  await b.clock.pass(100);
  assertEquals(call.granted, false);
  assertEquals(b.transport.created.length, 2);
  assertEquals(queueOf(tree).length, 2);
  await call.giveUp();
  assertEquals(b.clock.held, 0);
});

Deno.test("Acquisition starts over if its znode is deleted before it is watched", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  await a.call().lease;
  const call = b.call({ onWait: () => tree.znodes.has(call.path) && tree.delete(call.path) });
  await settle();
  assertEquals(b.transport.log.filter((request) => request === "get").length, 2);
  await b.clock.pass(100);
  assertEquals(b.transport.created.length, 2);
  assertEquals(call.granted, false);
  await call.giveUp();
});

Deno.test("Acquisition that starts over does not look for the former predecessor again", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  await a.call().lease;
  let gets = 0;
  b.transport.answers = (request) => {
    if (request === "children" && gets === 0) tree.delete(b.transport.created[0]!);
    if (request === "get" && ++gets === 1) throw refusal("CONNECTION_LOSS");
  };
  const call = b.call();
  await b.pass(500);
  assertEquals(call.granted, false);
  const entering = ["create", "children", "get", "get"];
  assertEquals(b.transport.log, [...entering, "delete", ...entering]);
});

Deno.test("Acquisition does not wait for a znode that is deleted before it is watched", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  const holder = a.call();
  await holder.lease;
  await b.call({ onWait: () => tree.delete(holder.path) }).lease;
  assertEquals(b.transport.log, ["create", "children", "get", "get"]);
});

Deno.test("Acquisition starts over if its znode is not listed", async () => {
  const tree = newTree();
  const [a] = await open(tree, 1);
  let created = 0;
  a.transport.answers = (request) => {
    if (request !== "create" || created++ > 0) return;
    for (const name of queueOf(tree)) tree.delete(`${PARENT}/${name}`);
    // The listing is executed after the delete.
    return settle();
  };
  const call = a.call();
  await settle();
  assertEquals(call.granted, false);
  await a.clock.pass(100);
  await call.lease;
  assertEquals(created, 2);
});

for (const code of ["CONNECTION_LOSS", "TIMEOUT"] as ZooKeeperError["code"][]) {
  Deno.test(`Acquisition finds the znode of an unanswered create (${code})`, async () => {
    const tree = newTree();
    const [a] = await open(tree, 1);
    let lost = 1;
    a.transport.answers = (request) => {
      if (request === "create" && lost-- > 0) throw refusal(code);
    };
    const call = a.call();
    await a.clock.pass(1_000);
    await call.lease;
    assertEquals(queueOf(tree).map((name) => `${PARENT}/${name}`), [call.path]);
    // One write before the search: a server that lags behind could miss the znode.
    const search = a.transport.log.slice(2);
    assertEquals(search.slice(0, 3), ["set", "children", "children"]);
    await call.release();
    assertEquals(queueOf(tree), []);
  });
}

for (const isLockDeleted of [false, true]) {
  const also = isLockDeleted ? ", also if the lock's znode is deleted meanwhile" : "";
  Deno.test(`Acquisition sends a create that was not executed again${also}`, async () => {
    const tree = newTree();
    const [a] = await open(tree, 1);
    let lost = 1;
    a.transport.answers = (request) => {
      if (request !== "create" || lost-- <= 0) return;
      for (const name of queueOf(tree)) tree.delete(`${PARENT}/${name}`);
      if (isLockDeleted) tree.delete(PARENT);
      throw refusal("CONNECTION_LOSS");
    };
    await a.call().lease;
    assertEquals(queueOf(tree).length, 1);
  });
}

Deno.test("Acquisition keeps the lowest of several znodes with its GUID", async () => {
  const tree = newTree();
  const [a] = await open(tree, 1);
  let lost = 1;
  a.transport.answers = (request) => {
    if (request !== "create" || lost-- <= 0) return;
    const [made] = queueOf(tree);
    tree.create(`${PARENT}/${made!.slice(0, -10)}`, true);
    throw refusal("CONNECTION_LOSS");
  };
  const call = a.call();
  await call.lease;
  assertEquals(queueOf(tree).map((name) => `${PARENT}/${name}`), [call.path]);
  assert(call.path.endsWith("0000000000"));
});

Deno.test("Acquisition deletes the znode of an unanswered create when the call ends", async () => {
  const tree = newTree();
  const [a] = await open(tree, 1);
  const answered = Promise.withResolvers<void>();
  a.transport.answers = (request) => request === "create" ? answered.promise : undefined;
  const call = a.call();
  call.abort.abort(new Error("enough"));
  await assertRejects(() => call.lease, Error, "enough");
  assertEquals(queueOf(tree).length, 1);
  answered.reject(refusal("CONNECTION_LOSS"));
  await settle();
  assertEquals(queueOf(tree), []);
});

Deno.test("Acquisition deletes the znode of an unanswered create in the next session", async () => {
  const tree = newTree();
  const [a] = await open(tree, 1);
  const { transport } = a;
  const answered = Promise.withResolvers<void>();
  transport.answers = (request) => request === "create" ? answered.promise : undefined;
  const call = a.call();
  await settle();
  (await a.sessions.current()).lose();
  answered.reject(refusal("SESSION_OVER"));
  await a.clock.pass(100);
  const lease = await call.lease;
  assert(a.transport !== transport);
  assertEquals(queueOf(tree).length, 1);
  assertEquals(lease!.fencingToken, tree.get(a.transport.created[0]!).czxid);
});

for (
  const [what, first] of [["the last one", MAX_SEQUENCE], [
    "below zero",
    -MAX_SEQUENCE - 1,
  ]] as const
) {
  Deno.test(`Acquisition rejects if the sequence number is ${what}`, async () => {
    const tree = newTree();
    tree.znodes.get(PARENT)!.nextSequence = first;
    const [a] = await open(tree, 1);
    const error = await assertRejects(() => a.call().lease, LockSetupError, "used up");
    assertEquals(error.lockName, "n");
    await settle();
    assertEquals(queueOf(tree), []);
  });
}

Deno.test("Acquisition rejects if a sibling has the same sequence number", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  await a.call().lease;
  tree.znodes.get(PARENT)!.nextSequence--;
  await assertRejects(() => b.call().lease, LockSetupError, "used up");
});

Deno.test("Acquisition checks the server from time to time, and rejects if an outage lasts too long", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  await a.call().lease;
  const call = b.call();
  call.lease.catch(() => {});
  await settle();
  const { checkEveryMs } = await b.sessions.current();
  await b.clock.pass(checkEveryMs * 3 + 1);
  assertEquals(b.transport.log.slice(4), ["get", "get", "get"]);
  b.transport.answers = () => {
    throw refusal("NOT_CONNECTED");
  };
  b.transport.become("suspended");
  await b.clock.pass(6_000);
  const error = await assertRejects(() => call.lease, LockUnavailableError, "NOT_CONNECTED");
  assert((error.cause as ZooKeeperError).code === "NOT_CONNECTED");
});

Deno.test("Acquisition has the czxid of its znode as the token, also if a later znode is listed", async () => {
  const tree = newTree();
  const [a] = await open(tree, 1);
  a.transport.answers = (request) => {
    if (request === "create") tree.create(`${PARENT}/_c_${crypto.randomUUID()}-lock-`, true);
  };
  const call = a.call();
  const lease = await call.lease;
  assertEquals(lease!.fencingToken, tokenOf(tree, call));
});

Deno.test("Acquisition reads its token if the queue has a child that is not an entry", async () => {
  const tree = newTree();
  const [a] = await open(tree, 1);
  a.transport.answers = (request) => {
    if (request === "create") tree.create(`${PARENT}/config`); // it changes the zxid of the listing
  };
  const call = a.call();
  const lease = await call.lease;
  assertEquals(lease!.fencingToken, tokenOf(tree, call));
  assertEquals(a.transport.log, ["create", "children", "get"]);
});

Deno.test("Acquisition creates the heartbeat's znode before it grants a lease, and rejects if it may not", async () => {
  const tree = newTree();
  const instance = await FakeInstance.open(tree, false);
  let code: ZooKeeperError["code"] = "CONNECTION_LOSS";
  const heartbeats = () => instance.transport.log.filter((r) => r.startsWith("createEphemeral"));
  instance.transport.answers = (request) => {
    if (request.startsWith("createEphemeral")) throw refusal(code);
  };
  const call = instance.call();
  await instance.clock.pass(1_000);
  assertEquals(call.granted, false);
  assert(heartbeats().length > 1);
  code = "NO_AUTH";
  await instance.clock.pass(100);
  await assertRejects(() => call.lease, LockSetupError, "NO_AUTH");
  await assertRejects(() => instance.call().lease, LockSetupError, "NO_AUTH");
  await settle();
  assertEquals(queueOf(tree), []);
});

Deno.test("Acquisition lists the queue again when its connection is lost just after the predecessor's delete", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  const holder = a.call();
  await holder.lease;
  const call = b.call();
  await settle();
  tree.delete(holder.path);
  b.transport.fireChanged(call.path);
  await call.lease;
  assertEquals(b.transport.log.slice(4), ["children"]);
});

Deno.test("Acquisition proves the session after a long wait, and starts over if its znode is deleted meanwhile", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  const holder = a.call();
  await holder.lease;
  const call = b.call();
  await b.clock.pass(5_000);
  b.transport.pong(instant(b.clock));
  await b.clock.pass(3_000); // Less than T/4 is left: the grant needs a proof.
  const proven = Promise.withResolvers<void>();
  b.transport.answers = (request) => request === "set" ? proven.promise : undefined;
  await holder.release();
  await settle();
  assertEquals(b.transport.log.at(-1), "set");
  assertEquals(call.granted, false);
  tree.delete(call.path);
  proven.resolve();
  await b.clock.pass(100);
  const lease = await call.lease;
  assertEquals(lease!.fencingToken, tree.get(b.transport.created[1]!).czxid);
});

Deno.test("Acquisition opens no lease for a znode that was deleted while the connection was lost before the proof", async () => {
  for (const request of ["set", "createEphemeral"]) {
    const tree = newTree();
    const [a, c] = await open(tree, 2);
    const b = await FakeInstance.open(tree, request === "set");
    b.transport.answers = (sent) => {
      if (sent.startsWith("createEphemeral")) throw refusal("CONNECTION_LOSS");
    };
    const holder = a.call();
    await holder.lease;
    const waiter = b.call();
    await settle();
    const third = c.call();
    await b.pass(5_000);
    b.transport.pong(instant(b.clock));
    await b.pass(3_000); // Less than T/4 is left: the grant needs a proof.
    const lost = Promise.withResolvers<void>();
    b.transport.answers = (sent) => sent.startsWith(request) ? lost.promise : undefined;
    await holder.release();
    await settle();
    assert(b.transport.log.at(-1)!.startsWith(request), b.transport.log.join());
    lost.reject(refusal("CONNECTION_LOSS"));
    b.transport.become("suspended");
    b.transport.watches.drop();
    tree.delete(waiter.path);
    assertEquals((await third.lease)!.fencingToken, tokenOf(tree, third));
    b.transport.answers = () => {};
    b.transport.epoch++;
    b.transport.requestedAt = instant(b.clock);
    b.transport.become("connected");
    await b.pass(500);
    assertEquals(waiter.granted, false);
    await third.release();
    await b.pass(100);
    assertEquals((await waiter.lease)!.fencingToken, tree.get(b.transport.created[1]!).czxid);
  }
});

Deno.test("Acquisition handles the failure of the heartbeat's create when its signal aborts at any moment", async () => {
  using unhandled = collectRejections();
  for (let ticks = 0; ticks < 40; ticks++) {
    const instance = await FakeInstance.open(newTree(), false);
    const second = Promise.withResolvers<void>();
    let creates = 0;
    instance.transport.answers = (request) => {
      if (!request.startsWith("createEphemeral")) return;
      if (++creates === 1) throw refusal("CONNECTION_LOSS");
      return second.promise;
    };
    const call = instance.call();
    for (let i = 0; i < ticks; i++) await Promise.resolve();
    await call.giveUp();
    second.promise.catch(() => {});
    second.reject(refusal("CONNECTION_LOSS"));
    await settle();
    assertEquals(unhandled.messages, [], `aborted after ${ticks} ticks`);
  }
});

Deno.test("Acquisition opens no lease after its signal has aborted", async () => {
  for (let ticks = 0; ticks < 40; ticks++) {
    const tree = newTree();
    const [a, b] = await open(tree, 2);
    const holder = a.call();
    await holder.lease;
    const call = b.call();
    await settle();
    const { engine } = b;
    const openLease = engine.open.bind(engine);
    let isLate = false;
    engine.open = (...terms) => {
      isLate = call.abort.signal.aborted;
      return openLease(...terms);
    };
    tree.delete(holder.path);
    for (let i = 0; i < ticks; i++) await Promise.resolve();
    call.abort.abort(new Error("enough"));
    await call.lease.catch((error) => assertEquals(error.message, "enough"));
    assert(!isLate, `aborted after ${ticks} ticks`);
  }
});

Deno.test("Acquisition listens to its signals until it ends, with one listener for all calls", async () => {
  const tree = newTree();
  const [a] = await open(tree, 1);
  const listeners = countListeners(a.context.ended);
  const first = a.call();
  const lease = await first.lease;
  assertEquals(listeners(), 0);
  const waiters = [a.call(), a.call()];
  assertEquals(listeners(), 1);
  for (const waiter of waiters) await waiter.giveUp();
  assertEquals(listeners(), 0);
  first.abort.abort();
  assert(lease!.isHeld);
});

Deno.test("Acquisition leaves no timer, no watcher and no request behind", async () => {
  const tree = newTree();
  const [a, b, c] = await open(tree, 3);
  const young = a.call({ isTry: true });
  await young.lease;
  const [tried, waiter] = [c.call({ isTry: true }), b.call()];
  await settle();
  assertEquals(c.clock.held, 1);
  await waiter.giveUp();
  assertEquals(b.transport.watcherCount, 0);
  await tried.giveUp();
  assertEquals(c.clock.held, 0);
  await young.release();
  await b.call().release();
  for (const { clock, transport } of [a, b, c]) {
    const asked = transport.log.length;
    transport.silentMs = 9_000;
    await clock.pass(9_000);
    assertEquals(transport.log.slice(asked), []);
    assertEquals([transport.watcherCount, clock.held], [0, 0]);
    assertEquals(clock.timers, 1); // the session's limit of silence
  }
});

Deno.test("Acquisition of tryAcquire() rejects if the server refuses the delete, and repeats one without an answer", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  await a.call().lease;
  const failing = (code: ZooKeeperError["code"]) => {
    // Not executed.
    b.transport.deletesAfter = Promise.reject(refusal(code));
    b.transport.deletesAfter.catch(() => {});
    return b.call({ isTry: true });
  };
  const refused = failing("NO_AUTH");
  const why = await assertRejects(() => refused.lease, LockSetupError, "Cannot release lock");
  assert(!why.message.includes("?."), why.message);
  const lost = failing("CONNECTION_LOSS");
  assertEquals(await lost.lease, null);
  assert(tree.znodes.has(lost.path));
  b.transport.deletesAfter = null;
  await b.clock.pass(100);
  assert(!tree.znodes.has(lost.path));
});

Deno.test("Acquisition of tryAcquire() is awaited by disposal until its znode is deleted", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  await a.call().lease;
  const deleted = Promise.withResolvers<void>();
  b.transport.deletesAfter = deleted.promise;
  const call = b.call({ isTry: true });
  await settle();
  let isClosed = false;
  const closed = b.engine.close(1_000).then(() => isClosed = true);
  await settle();
  assertEquals(isClosed, false);
  deleted.resolve();
  assertEquals(await call.lease, null);
  await closed;
});

for (const pending of ["create", "createPersistent /locks/n"]) {
  Deno.test(`Acquisition counts an outage from when an unanswered request was sent (${pending})`, async () => {
    const tree = newTree();
    if (pending !== "create") tree.delete(PARENT);
    const [a] = await open(tree, 1);
    const answered = Promise.withResolvers<void>();
    a.transport.answers = (request) => request === pending ? answered.promise : undefined;
    const call = a.call();
    await a.pass(4_000);
    a.transport.answers = () => Promise.reject(refusal("NOT_CONNECTED"));
    a.transport.become("suspended");
    answered.reject(refusal("CONNECTION_LOSS"));
    await a.pass(1_100);
    const expected = pending === "create" ? "CONNECTION_LOSS" : "NOT_CONNECTED";
    await assertRejects(() => call.lease, LockUnavailableError, expected);
  });
}

Deno.test("Acquisition counts an outage from the last answer, if that came after the create was sent", async () => {
  const tree = newTree();
  tree.create("/locks/other");
  const [a] = await open(tree, 1);
  const answered = Promise.withResolvers<void>();
  a.transport.answers = (request) => request === "create" ? answered.promise : undefined;
  const call = a.call();
  await a.clock.pass(4_000);
  await (await a.sessions.current()).delete("/locks/other");
  a.transport.answers = () => Promise.reject(refusal("NOT_CONNECTED"));
  a.transport.become("suspended");
  answered.reject(refusal("CONNECTION_LOSS"));
  await a.clock.pass(3_000);
  a.transport.answers = () => {};
  a.transport.become("connected");
  await a.clock.pass(100);
  await call.lease;
});

Deno.test("Acquisition enters queues with 128 calls at a time, in order; the others wait in line", async () => {
  const tree = newTree();
  const [a] = await open(tree, 1);
  const answered = Promise.withResolvers<void>();
  a.transport.answers = (request) => request === "create" ? answered.promise : undefined;
  const calls = Array.from({ length: 300 }, () => a.call({ isSilent: true }));
  await settle();
  assertEquals(a.transport.created.length, 128);
  await calls[200]!.giveUp();
  a.transport.answers = () => {};
  answered.resolve();
  await a.pass(100);
  assertEquals(a.transport.created.length, 299);
  assertEquals(calls.map(({ granted }) => granted).indexOf(true), 0);
  for (const [i, call] of calls.entries()) {
    if (i === 200) continue;
    assertEquals(call.granted, true, `call ${i}`);
    await call.release();
    await settle();
  }
});

Deno.test("Acquisition counts no waiter for a child of the lock's znode that is not an entry", async () => {
  const tree = newTree();
  tree.create(`${PARENT}/by-an-administrator`);
  const [a] = await open(tree, 1);
  await a.call().lease;
  const waiters = [a.call(), a.call()];
  await a.pass(100);
  const infos = waiters.map(({ infos }) => infos.at(-1));
  assertEquals(infos, [{ position: 1, waiters: 1 }, { position: 2, waiters: 2 }]);
});

Deno.test("Acquisition reports its position also after a billion acquires of the lock", async () => {
  for (const soFar of [2 ** 30 - 2, MAX_SEQUENCE - 4]) {
    const tree = newTree();
    tree.znodes.get(PARENT)!.nextSequence = soFar;
    const [a] = await open(tree, 1);
    await a.call().lease;
    const waiters = [a.call(), a.call()];
    await a.pass(100);
    assertEquals(waiters.map(({ infos }) => infos.at(-1)?.position), [1, 2]);
  }
});

Deno.test("Acquisition rejects at once behind a holder if it may not create the heartbeat's znode", async () => {
  const tree = newTree();
  const [a] = await open(tree, 1);
  await a.call().lease;
  const b = await FakeInstance.open(tree, false);
  b.transport.answers = (request) => {
    if (request.startsWith("createEphemeral")) throw refusal("NO_AUTH");
  };
  await assertRejects(() => b.call().lease, LockSetupError, "NO_AUTH");
});

Deno.test("Acquisition goes on in the next session when its session ends in an outage", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  await a.call().lease;
  const call = b.call();
  await settle();
  const { transport } = b;
  transport.answers = () => Promise.reject(refusal("NOT_CONNECTED"));
  transport.become("suspended");
  await b.pass(1_000);
  (await b.sessions.current()).lose();
  await b.pass(100);
  assert(b.transport !== transport);
  assertEquals(b.transport.created.length, 1);
  assertEquals(queueOf(tree).length, 2);
  await call.giveUp();
});

Deno.test("Acquisition counts a new outage after each answer", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  await a.call().lease;
  let failing = "create";
  b.transport.answers = (request) => {
    if (request === failing) throw refusal("NOT_CONNECTED");
  };
  const call = b.call();
  await b.pass(4_000);
  failing = "get"; // The creates and listings are answered.
  await b.pass(4_000);
  failing = "";
  assertEquals(call.infos.length, 1);
  await call.giveUp();
  await assertRejects(() => call.lease, Error, "enough");
});

/** A lock that is held. */
async function holdLock() {
  const tree = newTree();
  const [instance] = await open(tree, 1);
  const call = instance.call();
  const lease = (await call.lease)!;
  const lost = () => {
    const { reason } = lease.signal;
    return reason instanceof LeaseLostError ? reason.reason : undefined;
  };
  instance.transport.log.length = 0;
  return {
    ...instance,
    instance,
    tree,
    lease,
    lost,
    path: call.path,
    transport: instance.transport,
  };
}

Deno.test("Acquisition that has given up in an outage deletes its znode when the connection is back, not before", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  await a.call().lease;
  const call = b.call();
  await settle();
  b.transport.become("suspended");
  call.abort.abort();
  await assertRejects(() => call.lease);
  await b.pass(5_000);
  const deletes = () => b.transport.log.filter((request) => request === "delete").length;
  const before = deletes();
  assert(before <= 2, `${before} deletes without a connection`);
  b.transport.become("connected");
  await b.pass(100);
  assertEquals(deletes(), before + 1);
});

Deno.test("Acquisition deletes its znode as soon as the connection is back, however soon it is lost again", async () => {
  const tree = newTree();
  const [a] = await open(tree, 1);
  const holder = a.call();
  await holder.lease;
  const waiter = a.call();
  await settle();
  a.transport.become("suspended");
  await waiter.giveUp();
  const released = holder.release();
  await a.pass(2_000);
  a.transport.become("connected");
  await settle(); // and no time passes
  a.transport.become("suspended");
  assert(!tree.znodes.has(waiter.path), "the waiter's is left");
  assert(!tree.znodes.has(holder.path), "the holder's is left");
  await a.pass(1_000); // the engine may be in a pause between two attempts, and asks after it
  assertEquals(await released, true);
});

Deno.test("Acquisition that has given up deletes its znode when the next session has a connection, not before", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  await a.call().lease;
  const call = b.call();
  await settle();
  b.transport.become("suspended");
  await call.giveUp();
  (await b.sessions.current()).lose();
  await b.sessions.current();
  b.transport.become("suspended");
  await b.pass(5_000);
  const deletes = () => b.transport.log.filter((request) => request === "delete").length;
  const before = deletes();
  assert(before <= 2, `${before} deletes without a connection`);
  const { connectNows } = b.transport;
  assert(connectNows <= 2, `${connectNows} attempts to connect that nobody needs at once`);
  b.transport.become("connected");
  await b.pass(100);
  assertEquals(deletes(), before + 1);
  assert(!tree.znodes.has(call.path));
});

Deno.test("Acquisition whose lease was lost deletes its znode when the next session has a connection, not before", async () => {
  const tree = newTree();
  const [a] = await open(tree, 1);
  const holder = a.call();
  await holder.lease;
  (await a.sessions.current()).lose();
  await a.sessions.current();
  a.transport.become("suspended");
  await a.pass(5_000);
  const deletes = () => a.transport.log.filter((request) => request === "delete").length;
  assert(deletes() <= 2, `${deletes()} deletes without a connection`);
  const { connectNows } = a.transport;
  assert(connectNows <= 2, `${connectNows} attempts to connect that nobody needs at once`);
  a.transport.become("connected");
  await a.pass(1_000);
  assert(!tree.znodes.has(holder.path));
});

Deno.test("Acquisition deletes the znodes of a lost session in a later one, however long the outage was", async () => {
  const tree = newTree();
  const [a] = await open(tree, 1);
  const holder = a.call();
  await holder.lease;
  const waiter = a.call();
  await settle();
  a.transport.become("suspended");
  a.isReachable = false;
  await waiter.giveUp();
  // Without a leader no session expires, and a new leader gives each one its whole timeout again.
  await a.pass(40_000);
  assert(tree.znodes.has(holder.path) && tree.znodes.has(waiter.path));
  a.isReachable = true;
  await a.pass(6_000);
  assert(!tree.znodes.has(holder.path), "the holder's is left");
  assert(!tree.znodes.has(waiter.path), "the waiter's is left");
});

Deno.test("Acquisition watches its znode after a tenth of the session timeout", async () => {
  const { clock, tree, transport, path, lost } = await holdLock();
  await clock.pass(999);
  assertEquals(transport.log, []);
  await clock.pass(1);
  assertEquals(transport.log, ["get"]);
  tree.delete(path);
  assertEquals(lost(), "stolen");
});

Deno.test("Acquisition sets the watch on a held znode again when the connection was lost", async () => {
  const { clock, tree, transport, path, lost } = await holdLock();
  await clock.pass(1_000);
  transport.fireChanged(path);
  transport.become("connected");
  await settle();
  assertEquals(transport.log, ["get", "get"]);
  assertEquals(lost(), undefined);
  tree.delete(path);
  assertEquals(lost(), "stolen");
});

Deno.test("Acquisition notices at a renewal that its znode is missing", async () => {
  const { tree, transport, path, lease, lost } = await holdLock();
  tree.delete(path);
  assertEquals(lost(), undefined, "the znode is not watched yet");
  await lease.renew().catch(() => {});
  assertEquals(transport.log.slice(0, 2), ["get", "set"]);
  assertEquals(lost(), "stolen");
});

Deno.test("Acquisition leaves no timer and no watch after a release", async () => {
  const { clock, tree, transport, path, lease, lost } = await holdLock();
  assertEquals(await lease.release(), true);
  assert(!tree.znodes.has(path));
  assertEquals(clock.held, 0);
  transport.become("connected");
  await clock.pass(10_000);
  assertEquals(transport.log, ["delete"]);
  assertEquals(lost(), undefined);
});

Deno.test("Acquisition does not watch its znode again when the connection is lost during the release", async () => {
  const { clock, transport, path, lease } = await holdLock();
  await clock.pass(1_000);
  const answered = Promise.withResolvers<void>();
  transport.deletesAfter = answered.promise;
  const released = lease.release();
  transport.fireChanged(path);
  await settle();
  answered.resolve();
  assertEquals(await released, true);
  assertEquals(transport.log, ["get", "delete"]);
});

Deno.test("Acquisition sends no second delete when the first one is answered late", async () => {
  const { clock, transport, lease } = await holdLock();
  const answered = Promise.withResolvers<void>();
  transport.answers = (request) => request === "delete" ? answered.promise : undefined;
  const released = lease.release();
  await clock.pass(3_000); // the engine tries again when an attempt lasts too long
  answered.resolve();
  await clock.pass(1_000);
  assertEquals(await released, true);
  assertEquals(transport.log.filter((request) => request === "delete"), ["delete"]);
});

Deno.test("Acquisition sends another delete when the first one is not answered", async () => {
  const { clock, tree, transport, path, lease } = await holdLock();
  transport.answers = () => {
    transport.answers = () => {};
    throw refusal("CONNECTION_LOSS");
  };
  const released = lease.release();
  await clock.pass(1_000);
  assertEquals(await released, true); // The first one was executed.
  assertEquals(transport.log, ["delete", "delete"]);
  assert(!tree.znodes.has(path));
});

Deno.test("Acquisition gives up the session when its lease ends without a proof", async () => {
  const { clock, sessions, transport, lost } = await holdLock();
  const session = await sessions.current();
  transport.answers = () => {
    throw refusal("CONNECTION_LOSS");
  };
  await clock.pass(session.timeoutMs);
  assertEquals(lost(), "session-expired");
  assert(session.isOver && transport.isDestroyed);
});

Deno.test("Acquisition does not send the delete in the next session when the server has dropped its session", async () => {
  const { instance, transport, lease, lost } = await holdLock();
  transport.become("expired");
  assertEquals(lost(), "session-expired");
  await settle();
  assertEquals(await lease.release(), false);
  assert(instance.transport === transport, "no session is opened for it");
});

Deno.test("Acquisition extends its lease from when the heartbeat was sent, though a later renewal shares it", async () => {
  const { clock, sessions, transport, lease } = await holdLock();
  const answered = Promise.withResolvers<void>();
  transport.answers = (request) => request === "set" ? answered.promise : undefined;
  const session = await sessions.current();
  const sentMs = clock.now();
  void session.sendHeartbeat();
  await clock.pass(1_000);
  const renewed = lease.renew();
  await settle();
  answered.resolve();
  await renewed;
  assert(lease.remainingMs <= sentMs + session.timeoutMs - clock.now(), `${lease.remainingMs}`);
});

Deno.test("Acquisition gives its place among the 128 to the next call once, whether it succeeds or fails", async () => {
  const tree = newTree();
  const [a] = await open(tree, 1);
  for (let i = 0; i < 3; i++) {
    const call = a.call();
    await call.lease;
    await call.release();
  }
  a.transport.answers = (request) => {
    if (request === "children") throw refusal("NO_AUTH");
  };
  await assertRejects(() => a.call().lease, LockSetupError, "NO_AUTH");
  await settle();
  const created = a.transport.created.length;
  const answered = Promise.withResolvers<void>();
  a.transport.answers = () => answered.promise;
  const calls = Array.from({ length: 130 }, () => a.call({ isSilent: true }));
  await settle();
  assertEquals(a.transport.created.length - created, 128);
  answered.resolve();
  for (const call of calls) {
    await call.release();
    await settle();
  }
});

Deno.test("Acquisition that waits in line rejects in an outage together with those that have sent requests", async () => {
  const tree = newTree();
  const [a] = await open(tree, 1);
  const never = Promise.withResolvers<void>();
  a.transport.answers = () => never.promise;
  const reasons: unknown[] = [];
  for (let i = 0; i < 300; i++) {
    a.call({ isSilent: true }).lease.catch((error) => reasons.push(error));
  }
  await a.pass(5_000);
  assertEquals(reasons.length, 300);
  for (const error of reasons) {
    assertInstanceOf(error, LockUnavailableError);
    assert(error.message.endsWith("it has not answered in time for 5000 ms"), error.message);
  }
  assertEquals(a.transport.created.length, 128);
});

Deno.test("Acquisition keeps its place when what it reads after its create is not answered", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  await a.call().lease;
  const lose = (lost: string) => {
    let left = 1;
    b.transport.answers = (request) => {
      if (request === lost && left-- > 0) throw refusal("CONNECTION_LOSS");
    };
  };
  lose("children");
  const calls = [b.call()];
  await settle();
  assertEquals(b.transport.log, ["create", "children"], "it pauses");
  await b.pass(100);
  assertEquals(b.transport.log[2], "children");
  lose("get"); // The second one reads how many children there are.
  calls.push(b.call());
  await b.pass(100);
  assertEquals(calls.map(({ infos }) => infos), [
    [{ position: 1, waiters: 1 }],
    [{ position: 2, waiters: 2 }],
  ]);
  assertEquals(b.transport.created.length, 2);
  for (const call of calls) await call.giveUp();
});

Deno.test("Acquisition watches its znode also when the first read of it is not answered", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  await a.call().lease;
  let gets = 0;
  b.transport.answers = (request) => {
    // The first one is for the znode ahead.
    if (request === "get" && ++gets === 2) throw refusal("CONNECTION_LOSS");
  };
  const call = b.call();
  await b.pass(100);
  assertEquals(b.transport.created.length, 1);
  tree.delete(call.path);
  await b.pass(100);
  assertEquals(b.transport.created.length, 2);
  await call.giveUp();
});

Deno.test("Acquisition pauses between the heartbeats that must prove its session before it is granted the lock", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  const holder = a.call();
  await holder.lease;
  const call = b.call();
  await settle();
  const never = Promise.withResolvers<void>();
  b.transport.answers = (request) => request === "get" ? never.promise : undefined;
  // No sign of life is answered meanwhile: a heartbeat proves the session from its beginning on only.
  await b.pass(8_000);
  // A quarter of the timeout after the first heartbeat, that one is the sign of life.
  const log = await b.sent(async () => {
    await holder.release();
    await b.pass(2_500);
  });
  assertEquals(log, Array.from({ length: 6 }, () => "set"));
  assert(call.granted);
});

Deno.test("Acquisition opens no lease if the event of its znode's delete follows the read of its token", async () => {
  const tree = newTree();
  tree.create(`${PARENT}/config`); // Beside it, the token must be read.
  const [a] = await open(tree, 1);
  const answered = Promise.withResolvers<void>();
  a.transport.answers = (request) => request === "get" ? answered.promise : undefined;
  const call = a.call();
  await settle();
  assertEquals(a.transport.log, ["create", "children", "get"]);
  tree.delete(call.path);
  answered.resolve();
  await settle();
  assertEquals(call.granted, false);
  await a.pass(100);
  assertEquals((await call.lease)!.fencingToken, tree.get(a.transport.created[1]!).czxid);
});

Deno.test("Acquisition searches for no znode when its create was not sent", async () => {
  const tree = newTree();
  const [a] = await open(tree, 1);
  a.transport.become("suspended");
  const call = a.call();
  await settle();
  a.transport.become("connected");
  await a.pass(100);
  await call.lease;
  assertEquals(a.transport.log, ["create", "children", "create", "children"]);
});

Deno.test("Acquisition counts a new outage when it is told that the lock's znode is missing", async () => {
  const tree = new FakeTree();
  tree.create("/locks");
  const [a] = await open(tree, 1);
  a.transport.become("suspended");
  const call = a.call();
  await a.pass(4_000);
  const answered = Promise.withResolvers<void>();
  a.transport.answers = (request) => {
    return request.startsWith("createPersistent") ? answered.promise : undefined;
  };
  a.transport.become("connected");
  await a.pass(4_000);
  assertEquals(a.transport.log.at(-1), "createPersistent /locks/n");
  answered.resolve();
  await a.pass(100);
  await call.lease;
});

Deno.test("Acquisition repeats the delete of an unanswered create's znode that is not answered either", async () => {
  const tree = newTree();
  const [a] = await open(tree, 1);
  const answered = Promise.withResolvers<void>();
  a.transport.answers = (request) => request === "create" ? answered.promise : undefined;
  const call = a.call();
  await call.giveUp();
  // Not executed.
  a.transport.deletesAfter = Promise.reject(refusal("CONNECTION_LOSS"));
  a.transport.deletesAfter.catch(() => {});
  answered.reject(refusal("CONNECTION_LOSS"));
  await settle();
  assertEquals([queueOf(tree).length, a.transport.log.at(-1)], [1, "delete"]);
  a.transport.deletesAfter = null;
  await a.pass(100);
  assertEquals(queueOf(tree), []);
});

Deno.test("Acquisition deletes the znode of a lost session once, also if the next session is opened at a second try", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  await a.call().lease;
  const call = b.call();
  await settle();
  b.isReachable = false;
  (await b.sessions.current()).lose();
  await b.pass(100);
  b.isReachable = true;
  b.transport.become("expired"); // No server has accepted the session yet.
  await b.pass(1_000);
  assertEquals(b.transport.log.filter((request) => request === "delete"), ["delete"]);
  assertEquals(queueOf(tree).length, 2);
  await call.giveUp();
});

Deno.test("Acquisition of tryAcquire() gets the lock when an earlier tryAcquire() leaves before it is watched", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  const earlier = a.call({ isTry: true });
  await earlier.lease;
  b.transport.answers = (request) => {
    if (request === "children" && tree.znodes.has(earlier.path)) tree.delete(earlier.path);
  };
  assert(await b.call({ isTry: true }).lease !== null);
});

Deno.test("Acquisition of tryAcquire() waits for 100 ms in all, however often it lists the queue", async () => {
  const tree = newTree();
  const [a, b] = await open(tree, 2);
  await a.call({ isTry: true }).lease;
  const call = b.call({ isTry: true });
  await settle();
  await b.clock.pass(60);
  b.transport.become("connected"); // It lists the queue again.
  await settle();
  assertEquals([call.infos, b.clock.held], [[], 1], "it still waits");
  await b.clock.pass(41);
  await settle();
  assertEquals([call.infos.length, b.clock.held], [1, 0]);
  assertEquals(await call.lease, null);
});

Deno.test("Acquisition rejects, and deletes its znode, if each heartbeat is answered too late for a lease", async () => {
  const tree = newTree();
  const a = await FakeInstance.open(tree, true);
  await a.pass(60_000); // no sign of life is recent
  a.transport.answers = () => new Promise<void>((resolve) => void a.clock.schedule(resolve, 2_400));
  const call = a.call();
  const ended = assertRejects(() => call.lease, LockUnavailableError);
  await a.pass(60_000);
  a.transport.answers = () => {};
  await a.pass(1_000);
  await ended;
  assertEquals(queueOf(tree), []);
});
