import { assert, assertEquals } from "@std/assert";
import { nextAskDelayMs } from "../../../redis/waiting/waiting_room.ts";

const LISTENS = { listens: true, isMute: false };
const MUTE = { listens: false, isMute: true };
const CLAIM_MS = 3_000;
const ANSWER = { position: 2, leftMs: 60_000, holderIsOurs: true };

Deno.test("nextAskDelayMs() is 500 ms for the first in line and the heartbeat for other waiters", () => {
  for (const random of [0, 0.5, 1]) {
    const behind = nextAskDelayMs(ANSWER, LISTENS, CLAIM_MS, random);
    assert(behind >= 1_800 && behind <= 2_000, "three heartbeats fit into a lease of the inbox");
    assertEquals(nextAskDelayMs({ ...ANSWER, position: 1 }, LISTENS, CLAIM_MS, random), 500);
  }
});

Deno.test("nextAskDelayMs() is 20 ms for the first in line while another library holds the lock", () => {
  assertEquals(
    nextAskDelayMs({ ...ANSWER, position: 1, holderIsOurs: false }, LISTENS, CLAIM_MS, 0.5),
    20,
  );
  assert(
    nextAskDelayMs({ ...ANSWER, holderIsOurs: false }, LISTENS, CLAIM_MS, 0.5) > 1_000,
    "for the first only",
  );
});

Deno.test("nextAskDelayMs() ends right after the holder's lock expires, for the first in line first", () => {
  assertEquals(nextAskDelayMs({ ...ANSWER, position: 1, leftMs: 40 }, LISTENS, CLAIM_MS, 0.5), 41);
  assertEquals(nextAskDelayMs({ ...ANSWER, position: 1, leftMs: 0 }, LISTENS, CLAIM_MS, 0.5), 1);
  assertEquals(nextAskDelayMs({ ...ANSWER, leftMs: 40 }, LISTENS, CLAIM_MS, 0), 60);
  assertEquals(nextAskDelayMs({ ...ANSWER, leftMs: 40 }, LISTENS, CLAIM_MS, 1), 80);
  assert(
    nextAskDelayMs({ ...ANSWER, leftMs: -1 }, LISTENS, CLAIM_MS, 0) >= 1_800,
    "no TTL, no end to wait for",
  );
});

Deno.test("nextAskDelayMs() is at most a third of a claim for waiters that get no messages", () => {
  assertEquals(nextAskDelayMs(ANSWER, { ...LISTENS, listens: false }, CLAIM_MS, 0.5), 1_000);
  assertEquals(nextAskDelayMs(ANSWER, MUTE, CLAIM_MS, 0.5), 1_000);
});

Deno.test("nextAskDelayMs() is 20 ms for the first in line when its inbox is mute", () => {
  assertEquals(nextAskDelayMs({ ...ANSWER, position: 1 }, MUTE, CLAIM_MS, 0.5), 20);
});
