import { assertEquals } from "@std/assert";
import { entriesWithGuid, entryPrefix, sortedEntries } from "../../../zookeeper/recipe/order.ts";
import { randomFrom } from "../../../testing/processes/random.ts";

const digits = (sequence: number) =>
  sequence < 0 ? `-${String(-sequence).padStart(9, "0")}` : String(sequence).padStart(10, "0");
const ours = (sequence: number, guid = "a") => `${entryPrefix(guid)}${digits(sequence)}`;
const kazoos = (sequence: number) => `0123456789abcdef__lock__${digits(sequence)}`;

Deno.test("entryPrefix() returns the prefix that Curator uses", () => {
  const guid = "8f3e3c56-8a6a-4b35-9f4a-3b6f6f6c2c11";
  assertEquals(entryPrefix(guid), "_c_8f3e3c56-8a6a-4b35-9f4a-3b6f6f6c2c11-lock-");
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

Deno.test("entriesWithGuid() finds znodes by their GUID, lowest first", () => {
  const children = [ours(9, "g"), ours(4, "other"), ours(3, "g"), ours(1, "gg"), kazoos(2)];
  assertEquals(entriesWithGuid(children, "g").map(({ sequence }) => sequence), [3, 9]);
  assertEquals(entriesWithGuid(children, "nobody"), []);
});

Deno.test("sortedEntries() reads an overflowed number as negative", () => {
  assertEquals(sortedEntries([`${entryPrefix("a")}-2147483648`])[0]!.sequence, -2147483648);
  assertEquals(sortedEntries([`${entryPrefix("a")}-000000001`])[0]!.sequence, -1);
});
