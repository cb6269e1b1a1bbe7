import { assertEquals, assertLess } from "@std/assert";
import { LinkedSet } from "../../core/lease/linked_set.ts";
import { randomOf, seedOf } from "../../testing/processes/random.ts";
import { say } from "../../testing/processes/figures.ts";
import { cpuTimeMs } from "../../testing/core/cpu_time.ts";

Deno.test("LinkedSet keeps the order of insertion, and each value once", () => {
  const set = new LinkedSet<string>();
  for (const value of ["a", "b", "c", "a"]) set.add(value);
  assertEquals([...set], ["a", "b", "c"]);
  assertEquals([set.take(0), set.take(2), set.take(9)], [[], ["a", "b"], ["a", "b", "c"]]);
  assertEquals([set.delete("b"), set.delete("b"), set.has("b")], [true, false, false]);
  assertEquals([set.first, set.size], ["a", 2]);
  set.add("b");
  assertEquals([set.shift(), set.shift(), set.shift(), set.shift()], ["a", "c", "b", undefined]);
  assertEquals([...set, set.first, set.size], [undefined, 0]);
});

Deno.test("LinkedSet.add() puts a value before the last ones that it precedes", () => {
  const set = new LinkedSet<number>();
  const add = (value: number) => set.add(value, (last) => value < last);
  for (const value of [2, 4, 1, 3, 5, 1]) add(value);
  assertEquals([...set, set.first], [1, 2, 3, 4, 5, 1]);
  assertEquals([set.delete(1), set.delete(5), set.first], [true, true, 2]);
  for (const value of [1, 6]) add(value);
  assertEquals([...set], [1, 2, 3, 4, 6]);
});

Deno.test("LinkedSet behaves as a Set under random additions and removals", () => {
  const seed = seedOf();
  say(`seed ${seed}`);
  const random = randomOf(seed);
  const [linked, plain] = [new LinkedSet<number>(), new Set<number>()];
  for (let i = 0; i < 5_000; i++) {
    const value = Math.floor(random() * 50);
    if (random() < 0.5) {
      linked.add(value);
      plain.add(value);
    } else assertEquals(linked.delete(value), plain.delete(value));
    assertEquals(linked.first, [...plain][0]);
  }
  assertEquals([...linked], [...plain]);
});

Deno.test("LinkedSet.first takes no longer when many first values were removed", () => {
  const count = 400_000;
  const set = new LinkedSet<number>();
  for (let i = 0; i < count; i++) set.add(i);
  const startMs = cpuTimeMs();
  for (let i = 0; i < count; i++) assertEqual(set.shift(), i);
  assertLess(cpuTimeMs() - startMs, 5_000); // a `Set` takes over 20 s
});

/** `assertEquals()` compares deeply, which is slow. */
function assertEqual(actual: unknown, expected: unknown): void {
  if (actual !== expected) assertEquals(actual, expected);
}
