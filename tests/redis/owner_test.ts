/**
 * Several calls with the same owner id.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { LeaseLostError } from "../../mod.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { Gate } from "../../testing/redis/gated_client.ts";
import { atOnce, play } from "../../testing/redis/race_stage.ts";
import { ENDING_TTL_MS, KEPT_TTL_MS } from "../../testing/time.ts";

const OWNER = { ownerId: "job-7" };
/** Shorter than `commandTimeoutMs`, after which the renewal would be sent again. */
const MAX_HOLD_MS = 300;

Deno.test("Lease.release() that is retried keeps a later lease of the same owner id", () =>
  play(async ({ lock, gates }) => {
    const first = await lock.acquire("n", { ...OWNER, ttlMs: ENDING_TTL_MS });
    const gate = new Gate();
    gates.onRequest = gate.first("leave");
    const released = first.release();
    await gate.arrived;
    const second = await lock.acquire("n", OWNER);
    await waitUntil("it is tried again", () => {
      return gates.sent.filter(({ script }) => script === "leave").length > 1;
    });
    await released;
    gate.open();
    assert(await lock.tryAcquire("n", OWNER) === second, "the same id is one lease");
    second.throwIfLost();
    assertEquals(await second.release(), true);
  }));

Deno.test("RedisLock keeps a later lease of the same owner id when it cleans up after a lost one", () =>
  play(async ({ lock, gates }) => {
    const first = await lock.acquire("n", {
      ...OWNER,
      ttlMs: KEPT_TTL_MS,
      maxHoldMs: MAX_HOLD_MS,
    });
    const gate = new Gate();
    gates.onReply = gate.first("renew");
    const renewed = assertRejects(() => first.renew(), LeaseLostError);
    await gate.arrived;
    await waitUntil("it was held for too long", () => first.remainingMs === 0);
    // The clean-up waits for the renewal, but only for a limited time.
    const second = await lock.acquire("n", OWNER);
    await waitUntil(
      "the clean-up is sent",
      () => gates.sent.some(({ script }) => script === "leave"),
    );
    gate.open();
    await renewed;
    assert(await lock.tryAcquire("n", OWNER) === second);
    assertEquals(await second.release(), true);
  }));

Deno.test("RedisLock.acquire() keeps waiting when another call with the same owner id is aborted", () =>
  play(async (stage) => {
    const { lock, other } = stage;
    const held = await other.acquire("n");
    const abort = new AbortController();
    const first = assertRejects(() => lock.acquire("n", { ...OWNER, signal: abort.signal }));
    await waitUntil("it waits", async () => await stage.waiting() === 1);
    const second = lock.acquire("n", OWNER);
    abort.abort();
    await first;
    await waitUntil("only the second one waits", async () => await stage.waiting() === 1);
    await held.release();
    const lease = await atOnce("it is granted", second);
    assertEquals(await lease.release(), true);
    await stage.freeAtOnce();
  }));
