import { assert, assertEquals } from "@std/assert";
import { entryPrefix, MAX_SEQUENCE, newGuid } from "../../../zookeeper/recipe/order.ts";
import { type QueuePosition, QueueView } from "../../../zookeeper/recipe/queue_view.ts";

const digits = (sequence: number) =>
  sequence < 0 ? `-${String(-sequence).padStart(9, "0")}` : String(sequence).padStart(10, "0");
const ours = (sequence: number, guid = "a") => `${entryPrefix(guid)}${digits(sequence)}`;
const kazoos = (sequence: number) => `0123456789abcdef__lock__${digits(sequence)}`;
const tries = (sequence: number) => ours(sequence, newGuid(true));
const positionOf = (children: readonly string[], name: string): QueuePosition | null =>
  new QueueView(children).positionOf(name);

Deno.test("QueueView.positionOf() returns the number of entries ahead, the nearest and the first one", () => {
  const children = [ours(7, "c"), ours(5, "a"), kazoos(6), ours(8, "d"), "config"];
  const position = positionOf(children, ours(7, "c"))!;
  assertEquals(position.ahead, 2);
  assertEquals(position.predecessor!.name, kazoos(6));
  assertEquals(position.first.name, ours(5, "a"));
  assertEquals(position.waiterCount, 3);
  assertEquals(position.isOnlyChild, false);
});

Deno.test("QueueView.positionOf() returns null for a znode that is not listed", () => {
  assertEquals(positionOf([ours(1), kazoos(2)], ours(3)), null);
  assertEquals(positionOf([], ours(3)), null);
});

Deno.test("QueueView.positionOf() says that a znode is an only child when it has no sibling of any kind", () => {
  assert(positionOf([ours(1)], ours(1))!.isOnlyChild);
  assert(!positionOf([ours(1), "config"], ours(1))!.isOnlyChild);
  assertEquals(positionOf([ours(1), "config"], ours(1))!.predecessor, null);
});

Deno.test("QueueView.positionOf() says whether all entries ahead were made by tryAcquire()", () => {
  const [first, second, last] = [tries(1), tries(2), tries(4)];
  const behind = (children: string[], name: string) =>
    positionOf(children, name)!.isBehindTriesOnly;
  assert(behind([first, second, last], first));
  assert(behind([first, second, last], last));
  assert(behind([first, second, ours(3), last], ours(3)));
  assert(!behind([first, second, ours(3), last], last));
  assert(!behind([first, kazoos(3), last], last));
});

Deno.test("QueueView.positionOf() says that the order is not known at the end of the sequence numbers", () => {
  const known = (children: string[], own: string) => positionOf(children, own)!.isOrderKnown;
  assert(known([ours(1), ours(2, "b")], ours(1)));
  assert(known([ours(MAX_SEQUENCE - 1)], ours(MAX_SEQUENCE - 1)));
  assert(!known([ours(MAX_SEQUENCE)], ours(MAX_SEQUENCE)));
  assert(!known([ours(-MAX_SEQUENCE - 1)], ours(-MAX_SEQUENCE - 1)));
  assert(!known([ours(-5)], ours(-5)));
  assert(!known([ours(7), ours(7, "b")], ours(7)));
  assert(!known([ours(7), kazoos(7)], ours(7)));
  assert(!known([ours(7), kazoos(7), ours(7, "0")], ours(7)));
});
