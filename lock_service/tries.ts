/**
 * Tries of an action until Redis has answered. A try may fail because another server takes over the same
 * lease.
 *
 * @module
 */
import { pause, SYSTEM_CLOCK, TIMED_OUT, within } from "../core/time/clock.ts";
import type { Lease } from "../core/contract/distributed_lock.ts";
import { LeaseLostError, LockError } from "../core/contract/errors.ts";
import { type RequestError, unknownOutcome } from "./request_error.ts";

/** The body of an answer with status 200. Every other answer is thrown as an error. */
export type Answer = Readonly<Record<string, unknown>>;

/** How often an action is tried while other servers keep taking over the same lease. */
const MAX_TRIES = 10;
/**
 * The pause between two tries in ms is this value times the number of tries, times a random number from
 * 0 to 1, so that the servers do not keep colliding.
 */
const BACK_OFF_MS = 5;
/** How long in ms an answer waits for Redis. The request to Redis goes on, at most for the lease. */
const ANSWER_TIMEOUT_MS = 5_000;
/** The reason, for the logs, when all tries have failed. */
const CONTESTED = `another server took over the lease in each of ${MAX_TRIES} tries`;
/** The reason, for the logs, when Redis has not answered. */
const SILENT = "Redis has not answered in time: is it running and reachable?";

/** Tries until there is an answer. A try returns `null` if another server has taken over the lease. */
export async function untilAnswered(
  key: string,
  tryOnce: () => Promise<Answer | null>,
): Promise<Answer> {
  for (let tries = 1; tries <= MAX_TRIES; tries++) {
    const answer = await tryOnce();
    if (answer !== null) return answer;
    await pause(SYSTEM_CLOCK, tries * BACK_OFF_MS * Math.random());
  }
  throw givenUp(key, CONTESTED);
}

/** Renews the lease on Redis; false if it is lost, or another request has released it meanwhile. */
export async function isRenewed(lease: Lease, ttlMs: number): Promise<boolean> {
  try {
    await answered(lease.name, lease.renew(ttlMs));
    return lease.remainingMs >= 1;
  } catch (error) {
    if (error instanceof LeaseLostError) return false;
    if (error instanceof LockError && error.code === "ERR_LEASE_RELEASED") return false;
    throw error;
  }
}

/** Waits for an answer from Redis, but not for as long as a lease may last. */
export async function answered<T>(key: string, answer: Promise<T>): Promise<T> {
  const result = await within(SYSTEM_CLOCK, answer, ANSWER_TIMEOUT_MS);
  if (result === TIMED_OUT) throw givenUp(key, SILENT);
  return result;
}

/** It is not known what the request has done; the reason is for the logs. */
function givenUp(key: string, reason: string): RequestError {
  return unknownOutcome(`Gave up a request for the lock ${JSON.stringify(key)}: ${reason}`);
}
