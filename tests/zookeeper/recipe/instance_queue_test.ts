/**
 * Calls of one instance that wait for the same lock: what each of them sends.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../../testing/core/fake_clock.ts";
import { FakeTransport, FakeTree, settle } from "../../../testing/zookeeper/fake_zookeeper.ts";
import type { WaitInfo } from "../../../core/contract/distributed_lock.ts";
import { OutageBudget } from "../../../core/time/outage_budget.ts";
import { LockRecipe } from "../../../zookeeper/recipe/lock_recipe.ts";
import { OwnZnode } from "../../../zookeeper/recipe/own_znode.ts";
import { SharedQueue } from "../../../zookeeper/recipe/shared_queues.ts";
import { Session } from "../../../zookeeper/session/session.ts";
import { classifyFailure, ZooKeeperError } from "../../../zookeeper/connection/failures.ts";

const PARENT = "/locks/n";

function newTree(): FakeTree {
  const tree = new FakeTree();
  tree.create("/locks");
  tree.create(PARENT);
  return tree;
}

/** An entry of another client. */
function foreign(tree: FakeTree): string {
  return tree.create(`${PARENT}/_c_${crypto.randomUUID()}-lock-`, true);
}

/** One session, whose calls share what they know. */
function openInstance(tree: FakeTree) {
  const clock = new FakeClock();
  const transport = new FakeTransport(tree);
  const session = new Session(transport, {
    clock,
    leases: { extendAll: () => {}, loseAll: () => {} },
    rootPath: "/locks",
    heartbeatPath: `/locks/%session-${crypto.randomUUID()}`,
  });
  // As the first call of a session does. The calls here are later ones.
  void session.prepareHeartbeat();
  const queue = new SharedQueue(session, PARENT);
  const call = (isSilent = false) => {
    const abort = new AbortController();
    const listener = { onLeaving: (znode: OwnZnode) => queue.recordLeaving(znode) };
    const data = new Uint8Array();
    const znode = new OwnZnode({ session, lockPath: PARENT, data, isTry: false, listener });
    const budget = new OutageBudget({
      clock,
      service: "ZooKeeper",
      lockName: "n",
      unavailableAfterMs: 5_000,
      signal: abort.signal,
      classify: classifyFailure,
    });
    const infos: WaitInfo[] = [];
    let isFirst = false;
    const turn = new LockRecipe({ clock, name: "n", znode, budget, queue })
      .waitForTurn(isSilent ? undefined : (info) => void infos.push(info));
    turn.then(() => isFirst = true, () => {});
    const leave = () => znode.delete({ current: () => Promise.reject(new Error("no session")) });
    const granted = () => isFirst;
    return { znode, turn, infos, abort, leave, granted };
  };
  /** Runs the work and returns the requests that it sent. */
  const sent = async (work: () => unknown): Promise<string[]> => {
    const before = transport.log.length;
    await work();
    await settle();
    return transport.log.slice(before);
  };
  return { clock, transport, session, call, sent };
}

Deno.test("LockRecipe.waitForTurn() does not list the queue behind another waiter of its instance", async () => {
  const tree = newTree();
  foreign(tree);
  const { call, sent } = openInstance(tree);
  const calls: ReturnType<typeof call>[] = [];
  assertEquals(await sent(() => calls.push(call())), ["create", "children", "get", "get"]);
  foreign(tree);
  // The length of the queue, and the watch on the own znode.
  assertEquals(await sent(() => calls.push(call())), ["create", "get", "get"]);
  assertEquals(calls.map(({ infos }) => infos), [
    [{ position: 1, waiters: 1 }],
    [{ position: 3, waiters: 3 }],
  ]);
  for (const { abort, turn } of calls) {
    abort.abort(new Error("enough"));
    await assertRejects(() => turn, Error, "enough");
  }
});

Deno.test("LockRecipe.waitForTurn() serves the waiters of an instance without a listing, in order", async () => {
  const tree = newTree();
  const holder = foreign(tree);
  const { call, sent } = openInstance(tree);
  const calls = [call(), call(), call()];
  await settle();
  assertEquals(await sent(() => tree.delete(holder)), ["get"]);
  for (const [i, { leave }] of calls.entries()) {
    assertEquals(calls.map(({ granted }) => granted()), calls.map((_, other) => other <= i));
    // The next but one watches the znode of the next one.
    assertEquals(await sent(leave), i === 0 ? ["delete", "get"] : ["delete"]);
  }
});

Deno.test("LockRecipe.waitForTurn() sends two requests for a waiter behind others that asks for no position", async () => {
  const tree = newTree();
  foreign(tree);
  const { call, sent } = openInstance(tree);
  const calls = [call(true)];
  await settle();
  assertEquals(await sent(() => calls.push(call(true), call(true))), [
    "create",
    "create",
    "get",
    "get",
  ]);
  for (const { abort, turn } of calls) {
    abort.abort(new Error("enough"));
    await assertRejects(() => turn, Error, "enough");
  }
});

Deno.test("LockRecipe.waitForTurn() serves the next waiter of an instance before the delete is answered", async () => {
  const tree = newTree();
  const { transport, call, sent } = openInstance(tree);
  const calls = Array.from({ length: 5 }, () => call(true));
  await settle();
  const end = Promise.withResolvers<void>();
  transport.deletesAfter = end.promise;
  const log = await sent(async () => {
    for (const { turn, leave } of calls) {
      await turn;
      void leave();
    }
  });
  assertEquals(log, Array.from({ length: 5 }, () => "delete"));
  end.resolve();
  await settle();
  assertEquals(tree.children(PARENT).names, []);
});

Deno.test("LockRecipe.waitForTurn() waits for another instance between two waiters, also when a holder leaves", async () => {
  const tree = newTree();
  const { call } = openInstance(tree);
  const first = call(true);
  await first.turn;
  const between = foreign(tree);
  const second = call(true);
  await settle();
  await first.leave();
  await settle();
  assertEquals(second.granted(), false);
  tree.delete(between);
  await second.turn;
});

for (const moment of ["before others enter", "while they enter", "while they wait"] as const) {
  Deno.test(`LockRecipe.waitForTurn() takes no lock that was deleted and made again, when the former holder leaves ${moment}`, async () => {
    const tree = newTree();
    const { transport, call } = openInstance(tree);
    const first = call(true);
    await first.turn;
    // An administrator deletes all, and another instance takes the lock, with the number of that holder.
    tree.delete(`${PARENT}/${first.znode.name}`);
    tree.delete(PARENT);
    tree.create(PARENT);
    const other = foreign(tree);
    if (moment === "before others enter") await first.leave();
    const answered = Promise.withResolvers<void>();
    if (moment === "while they enter") {
      transport.answers = (request) => request === "get" ? answered.promise : undefined;
    }
    const calls = [call(true), call(true)];
    await settle();
    await first.leave();
    answered.resolve();
    await settle();
    assertEquals(calls.map(({ granted }) => granted()), [false, false]);
    tree.delete(other);
    await calls[0]!.turn;
    assertEquals(calls[1]!.granted(), false);
    await calls[0]!.leave();
    await calls[1]!.turn;
  });
}

Deno.test("LockRecipe.waitForTurn() rejects for a waiter whose znode is deleted, though a holder leaves", async () => {
  const tree = newTree();
  const { call } = openInstance(tree);
  const [first, second] = [call(true), call(true)];
  await first.turn;
  await settle();
  tree.delete(`${PARENT}/${second.znode.name}`);
  const leaving = first.leave();
  const error = await assertRejects(() => second.turn, ZooKeeperError);
  assertEquals(error.code, "OWN_ZNODE_GONE");
  await leaving;
});

Deno.test("LockRecipe.waitForTurn() reads the few entries ahead one by one when the nearest is deleted", async () => {
  const tree = newTree();
  const { call, sent } = openInstance(tree);
  const first = call();
  await first.turn;
  const others = [foreign(tree), foreign(tree)];
  const next = call();
  for (let i = 0; i < 30; i++) foreign(tree);
  // Lists the queue again, which is long now.
  await settle();
  const third = call();
  await settle();
  assertEquals(third.infos, [{ position: 34, waiters: 34 }]);
  tree.delete(others[0]!);
  assertEquals(next.granted(), false);
  // The other one may have given up, while the first one still holds the lock.
  await sent(() => tree.delete(others[1]!));
  assertEquals(next.granted(), false);
  await first.leave();
  await settle();
  assert(next.granted());
  third.abort.abort();
});

Deno.test("LockRecipe.waitForTurn() waits behind an entry that still exists when later ones have left", async () => {
  const tree = newTree();
  const early = Array.from({ length: 3 }, () => foreign(tree));
  const later = Array.from({ length: 40 }, () => foreign(tree));
  const { call, sent } = openInstance(tree);
  const first = call();
  await settle();
  // The first one becomes the holder, and others are behind it.
  const second = [foreign(tree), foreign(tree), foreign(tree)];
  const next = call();
  await settle();
  for (let i = 0; i < 40; i++) foreign(tree);
  for (const path of [...early, ...later]) tree.delete(path);
  await settle();
  assert(first.granted());
  await first.leave();
  await settle();
  // The nearest one leaves though the two before it still wait.
  const log = await sent(() => tree.delete(second[2]!));
  assertEquals(next.granted(), false);
  // One for each entry ahead, and the watch on the nearest of those that still exist.
  assertEquals(log, ["get", "get", "get", "get"]);
  tree.delete(second[0]!);
  await settle();
  assertEquals(next.granted(), false);
  assertEquals(await sent(() => tree.delete(second[1]!)), ["get"]);
  assert(next.granted());
});

Deno.test("LockRecipe.waitForTurn() rejects for a waiter in line whose znode is deleted", async () => {
  const tree = newTree();
  foreign(tree);
  const { call } = openInstance(tree);
  const [first, second] = [call(), call()];
  await settle();
  tree.delete(`${PARENT}/${second.znode.name}`);
  const error = await assertRejects(() => second.turn, ZooKeeperError);
  assertEquals(error.code, "OWN_ZNODE_GONE");
  first.abort.abort(new Error("enough"));
  await assertRejects(() => first.turn, Error, "enough");
});

Deno.test("LockRecipe.waitForTurn() lets the next waiter watch the queue when the first one gives up", async () => {
  const tree = newTree();
  const holder = foreign(tree);
  const { call } = openInstance(tree);
  const [first, second] = [call(), call()];
  await settle();
  first.abort.abort(new Error("enough"));
  await assertRejects(() => first.turn, Error, "enough");
  await first.leave();
  await settle();
  assertEquals(second.granted(), false);
  tree.delete(holder);
  await settle();
  assert(second.granted());
});

Deno.test("LockRecipe.waitForTurn() sends nothing during an outage, and sets its watch again after it", async () => {
  const tree = newTree();
  const holder = foreign(tree);
  const { clock, transport, call, sent } = openInstance(tree);
  const calls = Array.from({ length: 20 }, () => call());
  await settle();
  const answers = transport.answers;
  transport.answers = () => {
    throw new ZooKeeperError("NOT_CONNECTED", "made by a test");
  };
  const inOutage = await sent(async () => {
    transport.become("suspended");
    await clock.pass(2_000);
  });
  // One attempt for each call, which fails, and one for the watch on the predecessor.
  assert(inOutage.length <= calls.length + 2, inOutage.join());
  transport.answers = answers;
  transport.epoch++;
  const after = await sent(() => transport.become("connected"));
  assertEquals(after.filter((request) => request === "children").length, 1);
  assert(after.length <= calls.length + 2, after.join());
  tree.delete(holder);
  for (const { turn, leave } of calls) {
    await turn;
    await leave();
  }
});

Deno.test("LockRecipe.waitForTurn() searches for the znodes of many unanswered creates in few listings", async () => {
  const tree = newTree();
  const holder = foreign(tree);
  const { clock, transport, call, sent } = openInstance(tree);
  const answered = Promise.withResolvers<void>();
  transport.answers = () => answered.promise;
  const calls = Array.from({ length: 50 }, call);
  await settle();
  transport.answers = () => {};
  const log = await sent(async () => {
    answered.reject(new ZooKeeperError("CONNECTION_LOSS", "made by a test"));
    await clock.pass(1_000);
  });
  assert(log.filter((request) => request === "children").length <= 6, log.join());
  assertEquals(log.filter((request) => request === "create"), []);
  assertEquals(tree.children(PARENT).names.length, calls.length + 1);
  tree.delete(holder);
  for (const { turn, leave } of calls) {
    await turn;
    await leave();
  }
});
