import { assertEquals } from "@std/assert";
import { claimStartMs } from "../../../redis/protocol/server_clocks.ts";

Deno.test("claimStartMs() counts from when the last answered ask was sent", () => {
  const mapping = { sent: { nowMs: 5_000, wallMs: 0, epoch: 1 }, serverMs: 100_000 };
  // The server granted 1,000 ms after it answered; 1 % is subtracted for clocks of different speeds.
  assertEquals(claimStartMs(mapping, 1_000, 101_000, 6_100), 5_990);
});

Deno.test("claimStartMs() is never later than the receipt, whatever the server's clock shows", () => {
  const mapping = { sent: { nowMs: 5_000, wallMs: 0, epoch: 1 }, serverMs: 100_000 };
  assertEquals(
    claimStartMs(mapping, 1_000, 900_000, 6_100),
    6_100,
    "the server's clock was stepped",
  );
  assertEquals(claimStartMs(mapping, 1_000, 99_990, 6_100), 4_990, "granted before that answer");
});

Deno.test("claimStartMs() counts from the first ask when no answer is known", () => {
  assertEquals(claimStartMs(null, 1_000, 101_000, 6_100), 1_000);
});
