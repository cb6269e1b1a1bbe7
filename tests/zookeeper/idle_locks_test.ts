import { assert, assertEquals } from "@std/assert";
import { FakeInstance } from "../../testing/zookeeper/fake_instance.ts";
import { FakeTree, settle } from "../../testing/zookeeper/fake_zookeeper.ts";
import { IDLE_LOCK_MS } from "../../zookeeper/idle_locks.ts";

Deno.test("IdleLocks deletes a lock that was unused for a minute at a later release of any lock", async () => {
  const tree = new FakeTree();
  for (const path of ["/locks", "/locks/a", "/locks/b", "/locks/c"]) tree.create(path);
  const { clock, context: { idleLocks } } = await FakeInstance.open(tree);
  const left = () => ["a", "b", "c"].filter((name) => tree.znodes.has(`/locks/${name}`)).join("");
  const release = async (name: string, afterMs: number) => {
    clock.block(afterMs);
    idleLocks.recordRelease(`/locks/${name}`);
    await settle();
  };
  await release("a", 0);
  await release("b", 10);
  await release("a", 10);
  await release("c", IDLE_LOCK_MS - 11);
  assertEquals(left(), "abc");
  await release("c", 1);
  assertEquals(left(), "ac");
  await release("c", 10);
  assertEquals(left(), "c");
  await idleLocks.deleteAll(1_000);
  assertEquals(left(), "");
});

for (const isNext of [false, true]) {
  const where = isNext ? "no next session is opened" : "the connection is lost";
  Deno.test(`IdleLocks deletes a lock at a later release when ${where} at the first try`, async () => {
    const tree = new FakeTree();
    for (const path of ["/locks", "/locks/a", "/locks/b"]) tree.create(path);
    const instance = await FakeInstance.open(tree);
    const { clock, context: { idleLocks } } = instance;
    idleLocks.recordRelease("/locks/a");
    clock.block(IDLE_LOCK_MS);
    if (isNext) {
      instance.isReachable = false;
      (await instance.sessions.current()).lose();
    } else instance.transport.become("suspended");
    idleLocks.recordRelease("/locks/b");
    await instance.pass(6_000); // Longer than the next session may take to be opened.
    assert(tree.znodes.has("/locks/a"));
    if (isNext) instance.isReachable = true;
    else instance.transport.become("connected");
    clock.block(IDLE_LOCK_MS);
    idleLocks.recordRelease("/locks/b");
    await settle();
    assert(!tree.znodes.has("/locks/a"));
    await idleLocks.deleteAll(1_000);
    assert(!tree.znodes.has("/locks/b"));
  });
}

Deno.test("IdleLocks tries once to delete a lock that another client uses", async () => {
  const tree = new FakeTree();
  for (const path of ["/locks", "/locks/a", "/locks/a/used", "/locks/b"]) tree.create(path);
  const { clock, transport, context: { idleLocks } } = await FakeInstance.open(tree);
  idleLocks.recordRelease("/locks/a");
  for (let minute = 0; minute < 3; minute++) {
    clock.block(IDLE_LOCK_MS);
    idleLocks.recordRelease("/locks/b");
    await settle();
  }
  assertEquals(transport.log, ["delete"]);
});

Deno.test("IdleLocks sends few deletes at one release, however many locks are idle", async () => {
  const tree = new FakeTree();
  tree.create("/locks");
  const instance = await FakeInstance.open(tree);
  const { clock, context: { idleLocks } } = instance;
  for (let i = 0; i < 1_000; i++) {
    tree.create(`/locks/${i}`);
    idleLocks.recordRelease(`/locks/${i}`);
  }
  clock.block(IDLE_LOCK_MS);
  const sent: number[] = [];
  while (tree.znodes.size > 3) {
    sent.push((await instance.sent(() => idleLocks.recordRelease("/locks/last"))).length);
  }
  assert(sent.every((count) => count > 1 && count <= 128), sent.join());
});

Deno.test("IdleLocks opens no session at disposal if it has nothing to delete, or no server is there", async () => {
  const tree = new FakeTree();
  tree.create("/locks");
  const instance = await FakeInstance.open(tree);
  const { transport, context: { idleLocks } } = instance;
  (await instance.sessions.current()).lose();
  await idleLocks.deleteAll(1_000);
  assert(instance.transport === transport, "it has nothing to delete");
  idleLocks.recordRelease("/locks/a");
  transport.isFailing = true;
  await idleLocks.deleteAll(1_000);
  assert(instance.transport === transport, "no server is there");
});
