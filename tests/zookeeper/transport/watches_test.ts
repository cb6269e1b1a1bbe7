import { assertEquals } from "@std/assert";
import type { Watcher, WatchEvent, Znode } from "../../../zookeeper/transport/transport.ts";
import { Watches } from "../../../zookeeper/transport/watches.ts";

const ZNODE: Znode = {
  data: new Uint8Array(),
  czxid: 1n,
  createdAtMs: 0,
  childCount: 0,
  createCount: 0,
};

function newWatches() {
  return new Watches<WatchEvent>((event) => event);
}

/** A watcher that records its events. */
function recorder(events: string[], name: string): Watcher {
  return { onWatchEvent: (event) => void events.push(`${name} ${event}`) };
}

Deno.test("Watches gives the client one callback per znode until an event arrives", () => {
  const watches = newWatches();
  const events: string[] = [];
  const relay = watches.add("/a", recorder(events, "1"));
  assertEquals(watches.add("/a", recorder(events, "2")), relay);
  watches.confirm("/a", ZNODE);
  relay("deleted");
  relay("deleted");
  assertEquals(events, ["1 deleted", "2 deleted"]);
  assertEquals(watches.size, 0);
  watches.add("/a", recorder(events, "3"));
  relay("changed");
  assertEquals(watches.size, 1);
});

Deno.test("Watches forgets a watch that the server did not set with its last watcher", () => {
  const watches = newWatches();
  const [a, b] = [recorder([], "a"), recorder([], "b")];
  watches.add("/gone", a);
  watches.add("/gone", b);
  watches.fail("/gone", a);
  assertEquals(watches.size, 1);
  watches.fail("/gone", b);
  assertEquals(watches.size, 0);
});

Deno.test("Watches keeps a watch that the server has set for the next watcher", () => {
  const watches = newWatches();
  const [a, b] = [recorder([], "a"), recorder([], "b")];
  const relay = watches.add("/there", a);
  watches.confirm("/there", ZNODE);
  watches.remove("/there", a);
  assertEquals(watches.add("/there", b), relay);
  watches.fail("/there", b);
  assertEquals(watches.size, 1);
});

Deno.test("Watches.join() adds a watcher to a watch that the server has set, until its event arrives", () => {
  const watches = newWatches();
  const events: string[] = [];
  const relay = watches.add("/a", recorder(events, "1"));
  assertEquals(watches.join("/a", recorder(events, "early")), null);
  watches.confirm("/a", ZNODE);
  assertEquals(watches.join("/a", recorder(events, "2")), ZNODE);
  relay("deleted");
  assertEquals(events, ["1 deleted", "2 deleted"]);
  assertEquals(watches.join("/a", recorder(events, "late")), null);
  watches.add("/b", recorder(events, "3"));
  watches.confirm("/b", ZNODE);
  watches.drop();
  assertEquals(watches.join("/b", recorder(events, "later")), null);
});

Deno.test("Watches.drop() notifies each watcher of a change, once", () => {
  const watches = newWatches();
  const events: string[] = [];
  const relay = watches.add("/a", recorder(events, "1"));
  watches.add("/b", {
    onWatchEvent(event) {
      events.push(`2 ${event}`);
      watches.add("/b", recorder(events, "again"));
    },
  });
  watches.drop();
  relay("deleted");
  assertEquals(events, ["1 changed", "2 changed"]);
  assertEquals(watches.size, 1);
});
