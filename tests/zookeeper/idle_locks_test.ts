import { assertEquals } from "@std/assert";
import { IDLE_LOCK_MS, IdleLocks } from "../../zookeeper/idle_locks.ts";

Deno.test("IdleLocks returns a lock that was unused for a minute at a later release of any lock", () => {
  const idle = new IdleLocks();
  assertEquals(idle.recordRelease("/a", 0), []);
  assertEquals(idle.recordRelease("/b", 10), []);
  assertEquals(idle.recordRelease("/a", 20), []);
  assertEquals(idle.recordRelease("/c", IDLE_LOCK_MS + 10), ["/b"]);
  assertEquals(idle.recordRelease("/c", IDLE_LOCK_MS + 20), ["/a"]);
  assertEquals(idle.removeAll(), ["/c"]);
  assertEquals(idle.removeAll(), []);
});
