import { assertEquals } from "@std/assert";
import { Watches } from "../../../zookeeper/transport/watches.ts";
import type { WatchEvent } from "../../../zookeeper/transport/transport.ts";

function newWatches() {
  return new Watches<WatchEvent>((event) => event);
}

Deno.test("all watchers of a znode share what the client gets, until an event comes", () => {
  const watches = newWatches();
  const told: string[] = [];
  const relay = watches.add("/a", (event) => void told.push(`1 ${event}`));
  assertEquals(watches.add("/a", (event) => void told.push(`2 ${event}`)), relay);
  watches.set("/a");
  relay("deleted");
  relay("deleted");
  assertEquals(told, ["1 deleted", "2 deleted"]);
  assertEquals(watches.size, 0);
  watches.add("/a", () => {});
  relay("changed");
  assertEquals(watches.size, 1);
});

Deno.test("a watch that the server did not set is forgotten with its last watcher", () => {
  const watches = newWatches();
  const [a, b] = [() => {}, () => {}];
  watches.add("/gone", a);
  watches.add("/gone", b);
  watches.fail("/gone", a);
  assertEquals(watches.size, 1);
  watches.fail("/gone", b);
  assertEquals(watches.size, 0);
});

Deno.test("a watch that the server has set is kept for the next watcher", () => {
  const watches = newWatches();
  const [a, b] = [() => {}, () => {}];
  const relay = watches.add("/there", a);
  watches.set("/there");
  watches.remove("/there", a);
  assertEquals(watches.add("/there", b), relay);
  watches.fail("/there", b);
  assertEquals(watches.size, 1);
});

Deno.test("a lost connection is a change for each watcher, once", () => {
  const watches = newWatches();
  const told: string[] = [];
  const relay = watches.add("/a", (event) => void told.push(`1 ${event}`));
  watches.add("/b", (event) => {
    told.push(`2 ${event}`);
    watches.add("/b", () => void told.push("again"));
  });
  watches.drop();
  relay("deleted");
  assertEquals(told, ["1 changed", "2 changed"]);
  assertEquals(watches.size, 1);
});
