/**
 * Calls of one instance that wait for the same lock: what each of them sends.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { LockSetupError } from "../../../core/contract/errors.ts";
import { MAX_SEQUENCE } from "../../../zookeeper/recipe/queue_order.ts";
import { type FakeCall, FakeInstance } from "../../../testing/zookeeper/fake_instance.ts";
import { FakeTree, refusal, settle } from "../../../testing/zookeeper/fake_zookeeper.ts";

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

/** A call without `onWait`. */
function silent(instance: FakeInstance): FakeCall {
  return instance.call({ isSilent: true });
}

Deno.test("Acquisition does not list the queue behind another waiter of its instance", async () => {
  const tree = newTree();
  foreign(tree);
  const instance = await FakeInstance.open(tree);
  const calls: FakeCall[] = [];
  assertEquals(await instance.sent(() => calls.push(instance.call())), [
    "create",
    "children",
    "get",
    "get",
  ]);
  foreign(tree);
  // The length of the queue, and the watch on the own znode.
  assertEquals(await instance.sent(() => calls.push(instance.call())), ["create", "get", "get"]);
  assertEquals(calls.map(({ infos }) => infos), [
    [{ position: 1, waiters: 1 }],
    [{ position: 3, waiters: 3 }],
  ]);
  for (const call of calls) {
    await call.giveUp();
    await assertRejects(() => call.lease, Error, "enough");
  }
});

Deno.test("Acquisition serves the waiters of an instance without a listing, in order", async () => {
  const tree = newTree();
  const holder = foreign(tree);
  const instance = await FakeInstance.open(tree);
  const calls = [instance.call(), instance.call(), instance.call()];
  await settle();
  assertEquals(await instance.sent(() => tree.delete(holder)), []);
  for (const [i, call] of calls.entries()) {
    assertEquals(calls.map(({ granted }) => granted), calls.map((_, other) => other <= i));
    assertEquals(await instance.sent(() => call.release()), ["delete"]);
  }
});

Deno.test("Acquisition sends two requests for a waiter behind others that asks for no position", async () => {
  const tree = newTree();
  foreign(tree);
  const instance = await FakeInstance.open(tree);
  const calls = [silent(instance)];
  await settle();
  assertEquals(await instance.sent(() => calls.push(silent(instance), silent(instance))), [
    "create",
    "create",
    "get",
    "get",
  ]);
  for (const call of calls) {
    await call.giveUp();
    await assertRejects(() => call.lease, Error, "enough");
  }
});

Deno.test("Acquisition serves the next waiter of an instance before the delete is answered", async () => {
  const tree = newTree();
  const instance = await FakeInstance.open(tree);
  const calls = Array.from({ length: 5 }, () => silent(instance));
  await settle();
  const end = Promise.withResolvers<void>();
  instance.transport.deletesAfter = end.promise;
  const log = await instance.sent(async () => {
    for (const call of calls) {
      await call.lease;
      void call.release();
    }
  });
  assertEquals(log, Array.from({ length: 5 }, () => "delete"));
  end.resolve();
  await settle();
  assertEquals(tree.children(PARENT).names, []);
});

Deno.test("Acquisition waits for another instance between two waiters, also when a holder leaves", async () => {
  const tree = newTree();
  const instance = await FakeInstance.open(tree);
  const first = silent(instance);
  await first.lease;
  const between = foreign(tree);
  const second = silent(instance);
  await settle();
  await first.release();
  await settle();
  assertEquals(second.granted, false);
  tree.delete(between);
  await second.lease;
});

/** Which request of those who enter is not answered when the holder leaves. */
const MOMENTS = {
  "before others enter": "",
  "while they list the queue": "children",
  "while they enter": "get",
  "while they wait": "",
};

for (const [moment, pending] of Object.entries(MOMENTS)) {
  Deno.test(`Acquisition takes no lock that was deleted and made again, when the former holder leaves ${moment}`, async () => {
    const tree = newTree();
    const instance = await FakeInstance.open(tree);
    const first = silent(instance);
    await first.lease;
    // An administrator deletes all, and another instance takes the lock, with the number of that holder.
    tree.delete(first.path);
    tree.delete(PARENT);
    tree.create(PARENT);
    const other = foreign(tree);
    if (moment === "before others enter") await first.release();
    const answered = Promise.withResolvers<void>();
    instance.transport.answers = (request) => request === pending ? answered.promise : undefined;
    const calls = [silent(instance), silent(instance)];
    await settle();
    await first.release();
    answered.resolve();
    await settle();
    assertEquals(calls.map(({ granted }) => granted), [false, false]);
    tree.delete(other);
    await calls[0]!.lease;
    assertEquals(calls[1]!.granted, false);
    await calls[0]!.release();
    await calls[1]!.lease;
  });
}

Deno.test("Acquisition starts over for a waiter whose znode is deleted, though a holder leaves", async () => {
  const tree = newTree();
  const instance = await FakeInstance.open(tree);
  const [first, second] = [silent(instance), silent(instance)];
  await first.lease;
  await settle();
  tree.delete(second.path);
  const leaving = first.release();
  await leaving;
  assertEquals(second.granted, false);
  await instance.clock.pass(100);
  assertEquals((await second.lease)!.fencingToken, tree.get(instance.transport.created[2]!).czxid);
});

Deno.test("Acquisition reads the few entries ahead one by one when the nearest is deleted", async () => {
  const tree = newTree();
  const instance = await FakeInstance.open(tree);
  const first = instance.call();
  await first.lease;
  const others = [foreign(tree), foreign(tree)];
  const next = instance.call();
  for (let i = 0; i < 30; i++) foreign(tree);
  // Lists the queue again, which is long now.
  await settle();
  const third = instance.call();
  await settle();
  assertEquals(third.infos, [{ position: 34, waiters: 34 }]);
  tree.delete(others[0]!);
  assertEquals(next.granted, false);
  // The other one may have given up, while the first one still holds the lock.
  await instance.sent(() => tree.delete(others[1]!));
  assertEquals(next.granted, false);
  await first.release();
  await settle();
  assert(next.granted);
  third.abort.abort();
});

Deno.test("Acquisition waits behind an entry that still exists when later ones have left", async () => {
  const tree = newTree();
  const early = Array.from({ length: 3 }, () => foreign(tree));
  const later = Array.from({ length: 40 }, () => foreign(tree));
  const instance = await FakeInstance.open(tree);
  const first = instance.call();
  await settle();
  // The first one becomes the holder, and others are behind it.
  const second = [foreign(tree), foreign(tree), foreign(tree)];
  const next = instance.call();
  await settle();
  for (let i = 0; i < 40; i++) foreign(tree);
  for (const path of [...early, ...later]) tree.delete(path);
  await settle();
  assert(first.granted);
  await first.release();
  await settle();
  // The nearest one leaves though the two before it still wait.
  const log = await instance.sent(() => tree.delete(second[2]!));
  assertEquals(next.granted, false);
  // One for each entry ahead, and the watch on the nearest of those that still exist.
  assertEquals(log, ["get", "get", "get", "get"]);
  tree.delete(second[0]!);
  await settle();
  assertEquals(next.granted, false);
  assertEquals(await instance.sent(() => tree.delete(second[1]!)), ["get"]);
  assert(next.granted);
});

Deno.test("Acquisition starts over for a waiter in line whose znode is deleted", async () => {
  const tree = newTree();
  foreign(tree);
  const instance = await FakeInstance.open(tree);
  const [first, second] = [instance.call(), instance.call()];
  await settle();
  tree.delete(second.path);
  await instance.clock.pass(100);
  assertEquals(tree.children(PARENT).names.length, 3);
  assertEquals(second.granted, false);
  for (const call of [first, second]) await call.giveUp();
  assertEquals(tree.children(PARENT).names.length, 1);
});

Deno.test("Acquisition rejects for a waiter in line if a sibling has the same sequence number", async () => {
  const tree = newTree();
  const holder = foreign(tree);
  const instance = await FakeInstance.open(tree);
  const first = instance.call();
  await settle();
  foreign(tree);
  const second = instance.call();
  await settle();
  tree.znodes.get(PARENT)!.nextSequence--;
  foreign(tree);
  instance.transport.become("connected"); // The first one lists the queue again.
  await settle();
  tree.delete(holder);
  await first.lease;
  await assertRejects(() => second.lease, LockSetupError, "used up");
});

Deno.test("Acquisition rejects at the end of the sequence numbers for a call behind others, too", async () => {
  const tree = newTree();
  foreign(tree);
  const instance = await FakeInstance.open(tree);
  const first = instance.call();
  await settle();
  tree.znodes.get(PARENT)!.nextSequence = MAX_SEQUENCE;
  await assertRejects(() => instance.call().lease, LockSetupError, "used up");
  await first.giveUp();
});

Deno.test("Acquisition reports no position of later entries for a call behind others", async () => {
  const tree = newTree();
  foreign(tree);
  const instance = await FakeInstance.open(tree);
  const first = instance.call();
  await settle();
  instance.transport.answers = (request) => request === "create" ? void foreign(tree) : undefined;
  const second = instance.call();
  await settle();
  assertEquals(second.infos, [{ position: 2, waiters: 3 }]);
  for (const call of [first, second]) await call.giveUp();
});

Deno.test("Acquisition lists the queue for one of several calls that enter at once", async () => {
  const tree = newTree();
  const instance = await FakeInstance.open(tree);
  const calls: FakeCall[] = [];
  const log = await instance.sent(() => calls.push(silent(instance), silent(instance)));
  assertEquals(log, ["create", "children", "create", "get", "get"]);
  for (const call of calls) await call.release();
});

Deno.test("Acquisition gets the lock before the delete of a holder is answered that has left while it entered", async () => {
  const tree = newTree();
  const instance = await FakeInstance.open(tree);
  const { transport } = instance;
  const holder = silent(instance);
  await holder.lease;
  const answered = Promise.withResolvers<void>();
  transport.answers = (request) => request === "children" ? answered.promise : undefined;
  const end = Promise.withResolvers<void>();
  transport.deletesAfter = end.promise;
  const call = silent(instance);
  await settle();
  void holder.release();
  await settle();
  answered.resolve();
  await call.lease;
  assert(tree.znodes.has(holder.path), "its delete is not executed yet");
  end.resolve();
});

Deno.test("Acquisition starts over when the event of its znode's delete follows the answer to its watch", async () => {
  const tree = newTree();
  foreign(tree);
  const instance = await FakeInstance.open(tree);
  const first = silent(instance);
  await settle();
  const answered = Promise.withResolvers<void>();
  instance.transport.answers = (request) => request === "get" ? answered.promise : undefined;
  const second = silent(instance);
  await settle();
  tree.delete(second.path);
  answered.resolve();
  await settle();
  await instance.clock.pass(100);
  assertEquals(instance.transport.created.length, 3);
  for (const call of [first, second]) await call.giveUp();
});

Deno.test("Acquisition lets the next waiter watch the queue when the first one gives up", async () => {
  const tree = newTree();
  const holder = foreign(tree);
  const instance = await FakeInstance.open(tree);
  const [first, second] = [instance.call(), instance.call()];
  await settle();
  await first.giveUp();
  assertEquals(second.granted, false);
  tree.delete(holder);
  await settle();
  assert(second.granted);
});

Deno.test("Acquisition sends nothing during an outage, and sets its watch again after it", async () => {
  const tree = newTree();
  const holder = foreign(tree);
  const instance = await FakeInstance.open(tree);
  const calls = Array.from({ length: 20 }, () => instance.call());
  await settle();
  const answers = instance.transport.answers;
  instance.transport.answers = () => {
    throw refusal("NOT_CONNECTED");
  };
  const inOutage = await instance.sent(async () => {
    instance.transport.become("suspended");
    await instance.clock.pass(2_000);
  });
  // One attempt for each call, which fails, and one for the watch on the predecessor.
  assert(inOutage.length <= calls.length + 2, inOutage.join());
  instance.transport.answers = answers;
  instance.transport.epoch++;
  const after = await instance.sent(() => instance.transport.become("connected"));
  assertEquals(after.filter((request) => request === "children").length, 1);
  assert(after.length <= calls.length + 2, after.join());
  tree.delete(holder);
  for (const call of calls) await call.release();
});

Deno.test("Acquisition searches for the znodes of many unanswered creates in few listings", async () => {
  const tree = newTree();
  const holder = foreign(tree);
  const instance = await FakeInstance.open(tree);
  const answered = Promise.withResolvers<void>();
  instance.transport.answers = () => answered.promise;
  const calls = Array.from({ length: 50 }, () => instance.call());
  await settle();
  instance.transport.answers = () => {};
  const log = await instance.sent(async () => {
    answered.reject(refusal("CONNECTION_LOSS"));
    await instance.clock.pass(1_000);
  });
  assert(log.filter((request) => request === "children").length <= 6, log.join());
  assertEquals(log.filter((request) => request === "create"), []);
  assertEquals(tree.children(PARENT).names.length, calls.length + 1);
  tree.delete(holder);
  for (const call of calls) await call.release();
});

Deno.test("Acquisition reports the places of calls that enter together before the queue is listed", async () => {
  const tree = newTree();
  const instance = await FakeInstance.open(tree);
  const answered = Promise.withResolvers<void>();
  instance.transport.answers = (request) => request === "children" ? answered.promise : undefined;
  const calls = [instance.call(), instance.call(), instance.call()];
  await settle();
  assertEquals(calls.map(({ infos }) => infos), [
    [],
    [{ position: 1, waiters: 1 }],
    [{ position: 2, waiters: 2 }],
  ]);
  answered.resolve();
  for (const call of calls) await call.release();
});

Deno.test("Acquisition of shared calls lists the queue before it reports a wait, while few are ahead", async () => {
  const tree = newTree();
  const instance = await FakeInstance.open(tree);
  const holders = Array.from({ length: 3 }, () => instance.call({ mode: "shared" }));
  await settle();
  assertEquals(holders.map(({ granted }) => granted), [true, true, true]);
  assertEquals(holders.map(({ infos }) => infos), [[], [], []]);
  for (const call of holders) await call.release();
  foreign(tree);
  const reads: (string | undefined)[] = [];
  for (let i = 0; i < 36; i++) {
    reads.push((await instance.sent(() => instance.call({ mode: "shared" })))[1]);
  }
  // A listing for each of many would cost their square.
  assertEquals(reads.lastIndexOf("children"), 32);
});

Deno.test("Acquisition serves the next waiter before the delete of a tryAcquire() that held the lock is answered", async () => {
  const tree = newTree();
  const instance = await FakeInstance.open(tree);
  const holder = instance.call({ isTry: true });
  await holder.lease;
  const next = silent(instance);
  await settle();
  const end = Promise.withResolvers<void>();
  instance.transport.deletesAfter = end.promise;
  const released = holder.release();
  await settle();
  assert(next.granted);
  assert(tree.znodes.has(holder.path), "its delete is not executed yet");
  end.resolve();
  assertEquals(await released, true);
});

Deno.test("Acquisition needs no listing for a waiter directly behind a holder of its instance that has the other mode", async () => {
  for (const modes of [["exclusive", "shared"], ["shared", "exclusive"]] as const) {
    const tree = newTree();
    const other = foreign(tree);
    const instance = await FakeInstance.open(tree);
    const holder = instance.call({ mode: modes[0], isSilent: true });
    await settle();
    const waiter = instance.call({ mode: modes[1], isSilent: true });
    await settle();
    assertEquals(await instance.sent(() => tree.delete(other)), []);
    assertEquals([holder.granted, waiter.granted], [true, false]);
    assertEquals(await instance.sent(() => holder.release()), ["delete"]);
    assert(waiter.granted);
    await waiter.release();
  }
});
