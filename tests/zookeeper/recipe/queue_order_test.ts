import { assert, assertEquals, assertMatch } from "@std/assert";
import {
  entryPrefix,
  MAX_SEQUENCE,
  newGuid,
  type QueuePosition,
  QueueView,
  sortedEntries,
} from "../../../zookeeper/recipe/queue_order.ts";
import { randomFrom } from "../../../testing/processes/random.ts";

const digits = (sequence: number) =>
  sequence < 0 ? `-${String(-sequence).padStart(9, "0")}` : String(sequence).padStart(10, "0");
const ours = (sequence: number, guid = "a") =>
  `${entryPrefix(guid, "exclusive")}${digits(sequence)}`;
const readers = (sequence: number, guid = "a") =>
  `${entryPrefix(guid, "shared")}${digits(sequence)}`;
const kazoos = (sequence: number) => `0123456789abcdef__lock__${digits(sequence)}`;

const tries = (sequence: number) => ours(sequence, newGuid(true));
const positionOf = (children: readonly string[], name: string): QueuePosition | null =>
  new QueueView({ names: children, pzxid: 0n }, 1).positionOf(name);

Deno.test("entryPrefix() returns the prefix that Curator uses", () => {
  const guid = "8f3e3c56-8a6a-4b35-9f4a-3b6f6f6c2c11";
  assertEquals(entryPrefix(guid, "exclusive"), `_c_${guid}-lock-`);
  assertEquals(entryPrefix(guid, "shared"), `_c_${guid}-read-lock-`);
});

Deno.test("newGuid() returns a UUID of version 4, or of version 8 for a tryAcquire()", () => {
  const [four, twelve] = ["[\\da-f]{4}", "[\\da-f]{12}"];
  for (const [isTry, version] of [[false, 4], [true, 8]] as const) {
    const third = `${version}[\\da-f]{3}`;
    const uuid = new RegExp(`^${four}${four}-${four}-${third}-${four}-${twelve}$`);
    assertMatch(newGuid(isTry), uuid);
  }
});

Deno.test("sortedEntries() sorts by sequence number, whichever tool made the znodes", () => {
  const children = [ours(10, "z"), kazoos(2), ours(9, "a"), ours(2_000_000_000, "b"), kazoos(11)];
  assertEquals(sortedEntries(children).map(({ sequence }) => sequence), [
    2,
    9,
    10,
    11,
    2_000_000_000,
  ]);
});

Deno.test("sortedEntries() sorts 200 shuffled entries", () => {
  const random = randomFrom("order");
  const sequences = Array.from({ length: 200 }, () => Math.floor(random() * 2 ** 31));
  const sorted = [...new Set(sequences)].sort((a, b) => a - b);
  const shuffled = [...sorted].sort(() => random() - 0.5);
  const children = shuffled.map((sequence) => random() < 0.5 ? ours(sequence) : kazoos(sequence));
  assertEquals(sortedEntries(children).map(({ sequence }) => sequence), sorted);
});

Deno.test("sortedEntries() leaves out children that are not entries", () => {
  const children = ["lock", "x-lock-1", "lease-0000000001", "_c_a-lock-00000000012", "-lock-", ""];
  assertEquals(sortedEntries(children), []);
});

Deno.test("sortedEntries() reads an overflowed number as negative", () => {
  assertEquals(
    sortedEntries([`${entryPrefix("a", "exclusive")}-2147483648`])[0]!.sequence,
    -2147483648,
  );
  assertEquals(sortedEntries([`${entryPrefix("a", "exclusive")}-000000001`])[0]!.sequence, -1);
});

Deno.test("QueueView.positionOf() returns the number of entries ahead, and the first one", () => {
  const children = [ours(7, "c"), ours(5, "a"), kazoos(6), ours(8, "d"), "config"];
  const position = positionOf(children, ours(7, "c"))!;
  assertEquals(position.ahead, 2);
  assertEquals(position.firstBlocker.name, ours(5, "a"));
  assertEquals([position.turn, position.waiterCount], [2, 3]);
});

Deno.test("QueueView.positionOf() returns null for a znode that is not listed", () => {
  assertEquals(positionOf([ours(1), kazoos(2)], ours(3)), null);
  assertEquals(positionOf([], ours(3)), null);
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
  assertEquals(MAX_SEQUENCE, 2_147_483_647, "the greatest number of a Java int");
  assert(!known([ours(MAX_SEQUENCE)], ours(MAX_SEQUENCE)));
  assert(!known([ours(-MAX_SEQUENCE - 1)], ours(-MAX_SEQUENCE - 1)));
  assert(!known([ours(-5)], ours(-5)));
  assert(!known([ours(7), ours(7, "b")], ours(7)));
  assert(!known([ours(7, "b"), ours(7)], ours(7)));
  assert(!known([ours(7), kazoos(7)], ours(7)));
  assert(!known([ours(7), kazoos(7), ours(7, "0")], ours(7)));
});

Deno.test("QueueView.positionOf() counts exclusive entries as the blockers of a shared one", () => {
  const children = [
    readers(1),
    readers(2, "b"),
    ours(3),
    readers(4),
    kazoos(5),
    readers(6),
    ours(7),
  ];
  const seen = children.map((name) => {
    const { blockers, firstBlocker, turn, waiterCount } = positionOf(children, name)!;
    return [blockers, firstBlocker.name, turn, waiterCount];
  });
  assertEquals(seen, [
    [0, ours(3), -1, 5],
    [0, ours(3), 0, 5],
    [2, readers(1), 1, 5],
    [1, ours(3), 2, 5],
    [4, readers(1), 3, 5],
    [2, ours(3), 4, 5],
    [6, readers(1), 5, 5],
  ]);
});

Deno.test("QueueView.positionOf() says whether the blockers of a shared entry were made by tryAcquire()", () => {
  const shared = (sequence: number) => readers(sequence, newGuid(true));
  const behind = (children: string[], name: string) =>
    positionOf(children, name)!.isBehindTriesOnly;
  const own = shared(9);
  assert(behind([own], own));
  assert(behind([readers(1), own], own), "no blocker");
  assert(behind([readers(1), tries(2), own], own));
  assert(!behind([readers(1), tries(2), ours(3), own], own));
});

Deno.test("QueueView.blockersOf() returns them from the first entry on, and whether they are all", () => {
  const children = [ours(1), readers(2), ours(3), readers(4), readers(5)];
  const view = new QueueView({ names: children, pzxid: 0n }, 1);
  const names = (own: string, first?: string) => {
    const { entries, isAll } = view.blockersOf(own, first);
    return [entries.map(({ sequence }) => sequence), isAll];
  };
  assertEquals(names(ours(3)), [[1, 2], true]);
  assertEquals(names(ours(3), readers(2)), [[2], true]);
  assertEquals(names(ours(3), readers(9)), [[1, 2], true], "the first entry has left");
  assertEquals(names(readers(4)), [[1, 3], false]);
  assertEquals(names(readers(4), ours(3)), [[3], true]);
  assertEquals(names(readers(5), ours(3)), [[3], false]);
  assertEquals(names(readers(5), readers(4)), [[], false]);
  assertEquals(names(readers(2), ours(1)), [[1], true]);
  assertEquals(names(ours(1)), [[], true]);
});
