import { assert, assertEquals, assertMatch } from "@std/assert";
import { startRedis } from "../../testing/servers/redis.ts";
import { table } from "../../testing/faults/peers/table.ts";
import { type Outcome, play } from "../../testing/faults/peers/trials.ts";

Deno.test("play() finds overlaps and leftover locks of redis-semaphore, and none of RedisLock", async () => {
  await using server = await startRedis();
  const [ours, others, ourReply, otherReply] = await Promise.all([
    play("holdfast", "pause", server),
    play("redis-semaphore", "pause", server),
    play("holdfast", "lost-reply", server),
    play("redis-semaphore", "lost-reply", server),
  ]);
  assertEquals([ours.overlaps, ours.overlapMs], [0, 0]);
  assert(typeof ours.lateMs === "number", "the loss was reported");
  assertEquals(ourReply, { overlaps: 0, overlapMs: 0, isFailed: false, leftMs: 0 });
  assert(others.overlaps > 0, "the trial can tell");
  assert(otherReply.isFailed && otherReply.leftMs > 0, "the trial can tell");
});

Deno.test("table() shows overlaps, leftover locks and how late a loss was reported", () => {
  const good: Outcome = { overlaps: 0, overlapMs: 0, isFailed: false, leftMs: 0 };
  const bad: Outcome = { overlaps: 2, overlapMs: 1_234.5, isFailed: true, leftMs: 900 };
  const text = table(
    new Map([
      [
        "us",
        new Map([["pause", [{ ...good, lateMs: -20 }]], ["lost-reply", [good, good]]] as const),
      ],
      ["them", new Map([["pause", [{ ...bad, lateMs: null }, { ...bad, lateMs: 5 }]]] as const)],
      ["they", new Map([["lost-reply", [bad, good]]] as const)],
    ]),
  );
  const [, , us, them, they] = text.split("\n");
  assertMatch(us!, /^\| us \| 0 of 1 \| 20 ms before \| .* \| 0 of 2 \| 0 \|$/);
  assertMatch(them!, /^\| them \| 2 of 2, up to 1,235 ms \| never \(1 of 2\), after 5 ms \|/);
  assertMatch(they!, /\| 1 of 2 \| 1, for 900 ms more \|$/);
});
