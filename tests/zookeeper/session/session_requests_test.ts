import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../testing/core/fake_clock.ts";
import { FakeTransport, FakeTree } from "../../../testing/zookeeper/fake_zookeeper.ts";
import { Session } from "../../../zookeeper/session/session.ts";

Deno.test("SessionRequests.children() has one listing of a znode under way and one queued, which calls share", async () => {
  const tree = new FakeTree();
  for (const path of ["/locks", "/locks/a", "/locks/b"]) tree.create(path);
  const transport = new FakeTransport(tree);
  const { requests } = new Session(transport, {
    clock: new FakeClock(),
    leases: { extendAll: () => {}, loseAll: () => {} },
    rootPath: "/locks",
    heartbeatPath: "/locks/%session-x",
  });
  const answered = Promise.withResolvers<void>();
  transport.answers = () => answered.promise;
  const first = requests.children("/locks/a");
  tree.create("/locks/a/late");
  const others = Array.from({ length: 300 }, () => requests.children("/locks/a"));
  const another = requests.children("/locks/b");
  assertEquals(transport.log.length, 2);
  answered.resolve();
  assertEquals((await first).names, []);
  for (const other of others) assertEquals((await other).names, ["late"]);
  assertEquals((await another).names, []);
  assertEquals(transport.log.length, 3);
  await requests.children("/locks/a");
  assertEquals(transport.log.length, 4);
});
