import { assert, assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../../testing/core/fake_clock.ts";
import {
  FakeTransport,
  FakeTree,
  refusal,
  settle,
} from "../../../testing/zookeeper/fake_zookeeper.ts";
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

Deno.test("SharedQueues.using() shares the queue of a lock among calls of one session, while one of them uses it", async () => {
  const { session } = openQueue();
  const queues = new SharedQueues();
  const end = Promise.withResolvers<void>();
  const seen: SharedQueue[] = [];
  const use = (path: string) =>
    queues.using(session, path, async (queue) => {
      seen.push(queue);
      await end.promise;
    });
  const uses = [use(PARENT), use(PARENT), use("/locks/other")];
  await settle();
  assert(seen[0] === seen[1]);
  assert(seen[0] !== seen[2]);
  end.resolve();
  await Promise.all(uses);
  await use(PARENT);
  assert(seen[3] !== seen[0]);
});
