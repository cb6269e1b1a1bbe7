import { assert, assertEquals } from "@std/assert";
import { claimStartMs, nextAskMs } from "../../../redis/waiting/schedule.ts";

const LISTENS = { listens: true, claimMs: 3_000 };
const ANSWER = { position: 2, leftMs: 60_000, holderIsOurs: true };

Deno.test("nextAskMs() is the heartbeat for those behind and 500 ms for the first in line", () => {
  for (const random of [0, 0.5, 1]) {
    const behind = nextAskMs(ANSWER, LISTENS, random);
    assert(behind >= 1_800 && behind <= 2_000, "three heartbeats fit into a lease of the inbox");
    assertEquals(nextAskMs({ ...ANSWER, position: 1 }, LISTENS, random), 500);
  }
});

Deno.test("nextAskMs() is short while a stranger holds the lock", () => {
  assertEquals(nextAskMs({ ...ANSWER, position: 1, holderIsOurs: false }, LISTENS, 0.5), 20);
  assert(nextAskMs({ ...ANSWER, holderIsOurs: false }, LISTENS, 0.5) > 1_000, "for the first only");
});

Deno.test("nextAskMs() comes right after the holder's time is up, the first in line first", () => {
  assertEquals(nextAskMs({ ...ANSWER, position: 1, leftMs: 40 }, LISTENS, 0.5), 41);
  assertEquals(nextAskMs({ ...ANSWER, leftMs: 40 }, LISTENS, 0), 60);
  assert(nextAskMs({ ...ANSWER, leftMs: -1 }, LISTENS, 0) >= 1_800, "no TTL, no end to wait for");
});

Deno.test("nextAskMs() is within a third of a claim for those who get no messages", () => {
  assertEquals(nextAskMs(ANSWER, { listens: false, claimMs: 3_000 }, 0.5), 1_000);
});

Deno.test("claimStartMs() counts from the sending of the last answered ask", () => {
  const mapping = { sent: { nowMs: 5_000, wallMs: 0 }, serverMs: 100_000 };
  // The server granted 1,000 ms after it answered; 1 % is taken off for clocks that run apart.
  assertEquals(claimStartMs(mapping, 1_000, 101_000, 6_100), 5_990);
});

Deno.test("claimStartMs() is never later than the receipt, nor earlier for a clock that went back", () => {
  const mapping = { sent: { nowMs: 5_000, wallMs: 0 }, serverMs: 100_000 };
  assertEquals(
    claimStartMs(mapping, 1_000, 900_000, 6_100),
    6_100,
    "the server's clock was stepped",
  );
  assertEquals(claimStartMs(mapping, 1_000, 99_990, 6_100), 4_990, "granted before that answer");
});

Deno.test("claimStartMs() falls back to the first ask", () => {
  assertEquals(claimStartMs(null, 1_000, 101_000, 6_100), 1_000);
});
