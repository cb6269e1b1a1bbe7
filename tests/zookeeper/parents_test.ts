import { assertEquals } from "@std/assert";
import { IDLE_PARENT_MS, IdleParents } from "../../zookeeper/parents.ts";

Deno.test("a parent is given for deletion once it has been idle, seen at another's release", () => {
  const parents = new IdleParents();
  assertEquals(parents.left("/a", 0), []);
  assertEquals(parents.left("/b", 10), []);
  assertEquals(parents.left("/a", 20), []);
  assertEquals(parents.left("/c", IDLE_PARENT_MS + 10), ["/b"]);
  assertEquals(parents.left("/c", IDLE_PARENT_MS + 20), ["/a"]);
  assertEquals(parents.takeAll(), ["/c"]);
  assertEquals(parents.takeAll(), []);
});
