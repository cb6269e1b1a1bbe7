import { assert, assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../../testing/core/fake_clock.ts";
import { FakeTransport, FakeTree, refusal } from "../../../testing/zookeeper/fake_zookeeper.ts";
import { OwnZnode } from "../../../zookeeper/recipe/own_znode.ts";
import { SharedQueue, SharedQueues } from "../../../zookeeper/recipe/shared_queues.ts";
import { Session } from "../../../zookeeper/session/session.ts";

const PARENT = "/locks/n";

function openQueue() {
  const tree = new FakeTree();
  tree.create("/locks");
  tree.create(PARENT);
  const transport = new FakeTransport(tree);
  const session = new Session(transport, {
    clock: new FakeClock(),
    leases: { extendAll: () => {}, loseAll: () => {} },
    rootPath: "/locks",
    heartbeatPath: "/locks/%session-x",
  });
  return { tree, transport, session, queue: new SharedQueue(session, PARENT) };
}

Deno.test("SharedQueue.list() has one listing under way and one queued, which later calls share", async () => {
  const { tree, transport, queue } = openQueue();
  const answered = Promise.withResolvers<void>();
  transport.answers = () => answered.promise;
  const first = queue.list();
  const name = tree.create(`${PARENT}/_c_a-lock-`, true).slice(PARENT.length + 1);
  const others = Array.from({ length: 100 }, () => queue.list());
  assertEquals(transport.log, ["children"]);
  answered.resolve();
  assertEquals((await first).view.positionOf(name), null);
  for (const other of others) assertEquals((await other).view.positionOf(name)!.ahead, 0);
  assertEquals(transport.log, ["children", "children"]);
  await queue.list();
  assertEquals(transport.log.length, 3);
});

Deno.test("SharedQueue.list() sends the queued listing also when the one under way fails", async () => {
  const { transport, queue } = openQueue();
  transport.answers = () => {
    transport.answers = () => {};
    throw refusal("CONNECTION_LOSS");
  };
  const [first, second] = [queue.list(), queue.list()];
  await assertRejects(() => first);
  assertEquals((await second).epoch, 1);
  assertEquals(transport.log.length, 2);
});

Deno.test("SharedQueues.use() shares the queue of a lock among the znodes of one session, while there are any", () => {
  const { session } = openQueue();
  const queues = new SharedQueues();
  const use = (lockPath = PARENT) => {
    const use = queues.use(session, lockPath);
    const options = { session, lockPath, data: new Uint8Array(), isTry: false, listener: use };
    const znode = new OwnZnode(options);
    const leave = () => znode.delete({ current: () => Promise.reject(new Error("no session")) });
    return { queue: use.queue, leave };
  };
  const uses = [use(), use()];
  assert(uses[0]!.queue === uses[1]!.queue);
  assert(use("/locks/other").queue !== uses[0]!.queue);
  uses[0]!.leave();
  // A delete that is repeated is counted once.
  uses[0]!.leave();
  assert(use().queue === uses[0]!.queue);
});

Deno.test("SharedQueues.use() forgets a queue with its last znode", () => {
  const { session } = openQueue();
  const queues = new SharedQueues();
  const first = queues.use(session, PARENT);
  const data = new Uint8Array();
  first.onLeaving(new OwnZnode({ session, lockPath: PARENT, data, isTry: false }));
  assert(queues.use(session, PARENT).queue !== first.queue);
});
