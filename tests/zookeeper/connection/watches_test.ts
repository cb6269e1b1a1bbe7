import { assertEquals } from "@std/assert";
import type { Watcher } from "../../../zookeeper/connection/watches.ts";
import type { Znode } from "../../../zookeeper/connection/wire.ts";
import { Watches } from "../../../zookeeper/connection/watches.ts";

const ZNODE: Znode = {
  data: new Uint8Array(),
  czxid: 1n,
  createdAtMs: 0,
  childCount: 0,
  createCount: 0,
};

/** A watcher that records its events. */
function recorder(events: string[], name: string): Watcher {
  return { onWatchEvent: (event) => void events.push(`${name} ${event}`) };
}

Deno.test("Watches notifies all watchers of a znode of its event, once", () => {
  const watches = new Watches();
  const events: string[] = [];
  watches.add("/a", recorder(events, "1"));
  watches.add("/a", recorder(events, "2"));
  watches.confirm("/a", ZNODE);
  watches.fire("/a", "deleted");
  watches.fire("/a", "deleted");
  assertEquals(events, ["1 deleted", "2 deleted"]);
  assertEquals(watches.size, 0);
  watches.add("/a", recorder(events, "3"));
  watches.fire("/b", "changed");
  assertEquals(events.length, 2);
  assertEquals(watches.size, 1);
});

Deno.test("Watches forgets a watch that the server did not set with its last watcher", () => {
  const watches = new Watches();
  const [a, b] = [recorder([], "a"), recorder([], "b")];
  watches.add("/gone", a);
  watches.add("/gone", b);
  watches.fail("/gone", a);
  assertEquals(watches.size, 1);
  watches.fail("/gone", b);
  assertEquals(watches.size, 0);
});

Deno.test("Watches keeps a watch that the server has set for the next watcher", () => {
  const watches = new Watches();
  const [a, b] = [recorder([], "a"), recorder([], "b")];
  watches.add("/there", a);
  watches.confirm("/there", ZNODE);
  watches.remove("/there", a);
  assertEquals(watches.add("/there", b), ZNODE);
  watches.fail("/there", b);
  assertEquals(watches.size, 1);
});

Deno.test("Watches.add() returns the znode while the server has a watch on it, until its event arrives", () => {
  const watches = new Watches();
  const events: string[] = [];
  assertEquals(watches.add("/a", recorder(events, "1")), null);
  assertEquals(watches.add("/a", recorder(events, "2")), null);
  watches.confirm("/a", ZNODE);
  assertEquals(watches.add("/a", recorder(events, "3")), ZNODE);
  watches.fire("/a", "deleted");
  assertEquals(events, ["1 deleted", "2 deleted", "3 deleted"]);
  assertEquals(watches.add("/a", recorder(events, "late")), null);
  watches.add("/b", recorder(events, "4"));
  watches.confirm("/b", ZNODE);
  watches.drop();
  assertEquals(watches.add("/b", recorder(events, "later")), null);
});

Deno.test("Watches.drop() notifies each watcher of a change, once", () => {
  const watches = new Watches();
  const events: string[] = [];
  watches.add("/a", recorder(events, "1"));
  watches.add("/b", {
    onWatchEvent(event) {
      events.push(`2 ${event}`);
      watches.add("/b", recorder(events, "again"));
    },
  });
  watches.drop();
  watches.fire("/a", "deleted");
  assertEquals(events, ["1 changed", "2 changed"]);
  assertEquals(watches.size, 1);
});
