import { assertEquals } from "@std/assert";
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
