import { assert, assertEquals } from "@std/assert";
import {
  inOrder,
  isOrderKnown,
  madeUnder,
  MAX_SEQUENCE,
  standingOf,
  znodePrefix,
} from "../../../zookeeper/recipe/order.ts";
import { randomFrom } from "../../../testing/zookeeper/random.ts";

const digits = (sequence: number) =>
  sequence < 0 ? `-${String(-sequence).padStart(9, "0")}` : String(sequence).padStart(10, "0");
const ours = (sequence: number, guid = "a") => `${znodePrefix(guid)}${digits(sequence)}`;
const kazoos = (sequence: number) => `0123456789abcdef__lock__${digits(sequence)}`;

Deno.test("the znode prefix is Curator's", () => {
  const guid = "8f3e3c56-8a6a-4b35-9f4a-3b6f6f6c2c11";
  assertEquals(znodePrefix(guid), "_c_8f3e3c56-8a6a-4b35-9f4a-3b6f6f6c2c11-lock-");
});

Deno.test("contenders stand in the order of their numbers, whoever made them", () => {
  const children = [ours(10, "z"), kazoos(2), ours(9, "a"), ours(2_000_000_000, "b"), kazoos(11)];
  assertEquals(inOrder(children).map(({ sequence }) => sequence), [2, 9, 10, 11, 2_000_000_000]);
});

Deno.test("any shuffle is put in the same order", () => {
  const random = randomFrom("order");
  const sequences = Array.from({ length: 200 }, () => Math.floor(random() * 2 ** 31));
  const sorted = [...new Set(sequences)].sort((a, b) => a - b);
  const shuffled = [...sorted].sort(() => random() - 0.5);
  const children = shuffled.map((sequence) => random() < 0.5 ? ours(sequence) : kazoos(sequence));
  assertEquals(inOrder(children).map(({ sequence }) => sequence), sorted);
});

Deno.test("children of other kinds are no contenders", () => {
  const children = ["lock", "x-lock-1", "lease-0000000001", "_c_a-lock-00000000012", "-lock-", ""];
  assertEquals(inOrder(children), []);
  assertEquals(standingOf([...children, ours(3)], ours(3))!.ahead, []);
});

Deno.test("the standing tells who is ahead, and how many wait", () => {
  const children = [ours(7, "c"), ours(5, "a"), kazoos(6), ours(8, "d")];
  const standing = standingOf(children, ours(7, "c"))!;
  assertEquals(standing.own.sequence, 7);
  assertEquals(standing.ahead.map(({ name }) => name), [ours(5, "a"), kazoos(6)]);
  assertEquals(standing.waiters, 3);
  assertEquals(standing.isAlone, false);
});

Deno.test("a znode that is not listed stands nowhere", () => {
  assertEquals(standingOf([ours(1), kazoos(2)], ours(3)), null);
  assertEquals(standingOf([], ours(3)), null);
});

Deno.test("alone is who has no sibling of any kind", () => {
  assert(standingOf([ours(1)], ours(1))!.isAlone);
  assert(!standingOf([ours(1), "config"], ours(1))!.isAlone);
  assertEquals(standingOf([ours(1), "config"], ours(1))!.ahead, []);
});

Deno.test("znodes are found by their GUID, lowest first", () => {
  const children = [ours(9, "g"), ours(4, "other"), ours(3, "g"), ours(1, "gg"), kazoos(2)];
  assertEquals(madeUnder(children, "g").map(({ sequence }) => sequence), [3, 9]);
  assertEquals(madeUnder(children, "nobody"), []);
});

Deno.test("at the end of the numbers the order is not known", () => {
  const known = (children: string[], own: string) =>
    isOrderKnown(children, standingOf(children, own)!.own);
  assert(known([ours(1), ours(2, "b")], ours(1)));
  assert(known([ours(MAX_SEQUENCE - 1)], ours(MAX_SEQUENCE - 1)));
  assert(!known([ours(MAX_SEQUENCE)], ours(MAX_SEQUENCE)));
  assert(!known([ours(-MAX_SEQUENCE - 1)], ours(-MAX_SEQUENCE - 1)));
  assert(!known([ours(-5)], ours(-5)));
  assert(!known([ours(7), ours(7, "b")], ours(7)));
  assert(!known([ours(7), kazoos(7)], ours(7)));
});

Deno.test("a wrapped number is read as negative", () => {
  assertEquals(inOrder([`${znodePrefix("a")}-2147483648`])[0]!.sequence, -2147483648);
  assertEquals(inOrder([`${znodePrefix("a")}-000000001`])[0]!.sequence, -1);
});
