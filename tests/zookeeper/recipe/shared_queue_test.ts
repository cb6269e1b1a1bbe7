import { assert, assertEquals } from "@std/assert";
import { FakeClock } from "../../../testing/core/fake_clock.ts";
import { FakeTransport, FakeTree, ROOT_PATH } from "../../../testing/zookeeper/fake_zookeeper.ts";
import { OwnZnode } from "../../../zookeeper/recipe/own_znode.ts";
import { SharedQueue } from "../../../zookeeper/recipe/shared_queue.ts";
import type { LockMode } from "../../../mod.ts";
import { Session } from "../../../zookeeper/session/session.ts";

const PARENT = "/locks/n";

function openQueue() {
  const tree = new FakeTree();
  tree.create("/locks");
  tree.create(PARENT);
  const newSession = () => {
    const transport = new FakeTransport(tree);
    const leases = { clock: new FakeClock(), extendAll: () => {}, loseAll: () => {} };
    const session = new Session(transport, leases, ROOT_PATH, true);
    return { transport, session };
  };
  const { transport, session } = newSession();
  const queues = new Map<string, SharedQueue>();
  const use = (session: Session, name: string, path: string) =>
    SharedQueue.use(queues, session, name, path);
  return { tree, transport, session, newSession, use, queue: use(session, "n", PARENT) };
}

Deno.test("SharedQueue.list() sorts a listing once for all calls that share it", async () => {
  const { tree, transport, queue } = openQueue();
  const answered = Promise.withResolvers<void>();
  transport.answers = () => answered.promise;
  const first = queue.list();
  const name = tree.create(`${PARENT}/_c_a-lock-`, true).slice(PARENT.length + 1);
  const others = Array.from({ length: 100 }, () => queue.list());
  assertEquals(transport.log, ["children"]);
  answered.resolve();
  assertEquals((await first).positionOf(name), null);
  const views = await Promise.all(others);
  assertEquals(new Set(views).size, 1);
  assertEquals(views[0]!.positionOf(name)!.ahead, 0);
  assertEquals(transport.log, ["children", "children"]);
  assert(queue.latest === views[0]);
  transport.epoch++;
  assertEquals(queue.latest, null, "on another connection");
});

Deno.test("SharedQueue.list() lists no entries when the lock's znode is missing", async () => {
  const { tree, queue } = openQueue();
  await queue.list();
  tree.delete(PARENT);
  assertEquals((await queue.list()).size, 0);
  assertEquals([queue.latest, await queue.size()], [null, null]);
});

Deno.test("SharedQueue.use() shares the queue of a lock among the znodes of one session, while there are any", async () => {
  const { session, newSession, use, queue } = openQueue();
  assert(use(session, "n", PARENT) === queue);
  assert(use(session, "other", "/locks/other") !== queue);
  const leave = (znode: OwnZnode) =>
    znode.delete({ latest: session, current: () => Promise.reject(new Error("no session")) });
  const [first, second] = [1, 2].map(() =>
    new OwnZnode(queue, new Uint8Array(), false, "exclusive")
  );
  await leave(first!);
  await leave(first!); // A delete that is repeated is counted once.
  assert(use(session, "n", PARENT) === queue);
  await leave(second!);
  await leave(new OwnZnode(queue, new Uint8Array(), false, "exclusive"));
  const later = use(session, "n", PARENT);
  assert(later !== queue, "the last znode has left");
  const { session: next } = newSession();
  const inNext = use(next, "n", PARENT);
  assert(inNext !== later, "in the next session");
  await leave(new OwnZnode(later, new Uint8Array(), false, "exclusive"));
  assert(use(next, "n", PARENT) === inNext);
});

function entering(
  queue: SharedQueue,
  sequence: number,
  firsts: number[],
  mode: LockMode = "exclusive",
) {
  const waiter = {
    sequence,
    mode,
    isLooking: false,
    onChange: () => void firsts.push(sequence),
    onHolderLeaving: () => {},
  };
  queue.startWait(waiter);
  return waiter;
}

Deno.test("SharedQueue.endWait() notifies the next waiter when the first one leaves", () => {
  const { queue } = openQueue();
  const firsts: number[] = [];
  assert(!queue.hasOthersAhead);
  const [a, b, c] = [3, 5, 6].map((sequence) => entering(queue, sequence, firsts));
  assert(a!.isLooking && !b!.isLooking);
  queue.endWait(b!);
  assertEquals(firsts, [3]);
  queue.endWait(a!);
  queue.endWait(a!);
  assertEquals([firsts, c!.isLooking], [[3, 6], true]);
  queue.endWait(c!);
  assert(!queue.hasOthersAhead);
});

Deno.test("SharedQueue.startWait() puts a waiter whose znode is older before the others", () => {
  const { queue } = openQueue();
  const firsts: number[] = [];
  const [b, c] = [entering(queue, 5, firsts), entering(queue, 7, firsts)];
  const a = entering(queue, 2, firsts);
  entering(queue, 6, firsts);
  assert(a.isLooking);
  for (const waiter of [a, b]) queue.endWait(waiter);
  assertEquals(firsts, [5, 6]);
  queue.endWait(c);
  assertEquals(firsts, [5, 6]);
});

Deno.test("SharedQueue lets the shared waiters look that are directly behind a first shared one", () => {
  const { queue } = openQueue();
  const looking: number[] = [];
  const enter = (sequence: number, mode: LockMode) => entering(queue, sequence, looking, mode);
  const [w1, r2, r3, w4, r5] = [
    enter(1, "exclusive"),
    enter(2, "shared"),
    enter(3, "shared"),
    enter(4, "exclusive"),
    enter(5, "shared"),
  ];
  assertEquals(looking, [1]);
  queue.endWait(w1);
  assertEquals(looking, [1, 2, 3]);
  queue.endWait(r3);
  assertEquals(looking, [1, 2, 3]);
  queue.endWait(r2);
  assertEquals(looking, [1, 2, 3, 4]);
  queue.endWait(w4);
  const r6 = enter(6, "shared");
  assertEquals(looking, [1, 2, 3, 4, 5, 6]);
  queue.endWait(r5);
  queue.endWait(r6);
  assert(!queue.hasOthersAhead);
});
