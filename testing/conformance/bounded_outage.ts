/**
 * Waits that `waitMs` bounds and that end in an outage: the same check for every strategy with a server.
 *
 * @module
 */
import { assert, assertEquals, assertInstanceOf, assertLess } from "@std/assert";
import { type DistributedLock, LockUnavailableError } from "../../mod.ts";
import { within } from "./bounds.ts";
import { scaled } from "../time.ts";

/** How long, in ms, the calls wait. */
export const WAIT_MS = scaled(1_500);
/** Far below the time of an outage, or of a session, and generous for busy machines. */
const PROMPT_MS = scaled(10_000);

/** Calls both methods, and checks that the outage is reported as one, and promptly. */
export async function assertUnavailable(
  lock: DistributedLock,
  whenWaiting: () => void,
): Promise<void> {
  const startMs = performance.now();
  let waits = 0;
  const onWait = () => {
    if (++waits === 2) whenWaiting();
  };
  const calls = [
    lock.acquire("n", { waitMs: WAIT_MS, onWait }),
    lock.tryAcquire("n", { waitMs: WAIT_MS, onWait }),
  ];
  for (const outcome of await within("both end", Promise.allSettled(calls))) {
    assert(outcome.status === "rejected", "the outcome of an outage is not an answer");
    assertInstanceOf(outcome.reason, LockUnavailableError);
    assertEquals(outcome.reason.lockName, "n");
  }
  assertLess(performance.now() - startMs, PROMPT_MS);
}
