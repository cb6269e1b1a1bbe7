import { assert, assertEquals } from "@std/assert";
import { type Timed, TimeHeap } from "../../core/time/time_heap.ts";
import { say } from "../../testing/processes/figures.ts";
import { randomOf, seedOf } from "../../testing/processes/random.ts";

Deno.test("TimeHeap knows its first item after each of many random additions and removals", () => {
  const seed = seedOf();
  say(`seed ${seed}`);
  const random = randomOf(seed);
  const heap = new TimeHeap<Timed>();
  const items: Timed[] = Array.from({ length: 40 }, (_, order) => {
    return { atMs: Math.floor(random() * 10), order, index: -1 };
  });
  const inside = new Set<Timed>();
  for (let i = 0; i < 5_000; i++) {
    const item = items[Math.floor(random() * items.length)]!;
    const isInside = inside.has(item);
    if (!isInside && random() < 0.8) {
      heap.add(item);
      inside.add(item);
    } else if (!isInside || random() < 0.4) {
      assertEquals(heap.delete(item), inside.delete(item));
    }
    const [first] = [...inside].toSorted((a, b) => a.atMs - b.atMs || a.order - b.order);
    assert(heap.first === first, `step ${i}`);
    assertEquals(heap.size, inside.size);
  }
  assert([...heap].length === inside.size && [...heap].every((item) => inside.has(item)));
});
