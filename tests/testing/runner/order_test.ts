import { assert, assertEquals } from "@std/assert";
import { shuffled, slowFirst } from "../../../testing/runner/order.ts";

const FILES = Array.from(
  { length: 50 },
  (_, i) => `tests/${i % 2 ? "redis" : "core"}/${i}_test.ts`,
);

Deno.test("shuffled() orders all files by the seed", () => {
  assertEquals(shuffled(FILES, 7), shuffled(FILES, 7));
  assert(shuffled(FILES, 7).join() !== shuffled(FILES, 8).join());
  assertEquals(shuffled(FILES, 7).sort(), [...FILES].sort());
});

Deno.test("slowFirst() puts tests with servers first, each part ordered by the seed", () => {
  const order = slowFirst(FILES, 7);
  const isSlow = (file: string) => file.startsWith("tests/redis/");
  assertEquals(order.map(isSlow), FILES.map((_, i) => i < 25));
  assertEquals(order.filter(isSlow), shuffled(FILES, 7).filter(isSlow));
});
