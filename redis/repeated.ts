/**
 * Requests that are sent again until they are answered. Those of an acquisition are in `asks.ts`.
 *
 * @module
 */
import type { OutageBudget } from "../core/time/outage_budget.ts";

/**
 * Sends a request, which may be executed twice, until it is answered.
 *
 * @param signal Ends the call.
 * @throws {unknown} `signal.reason` if the signal aborts.
 * @throws {LockUnavailableError} If the outage lasts for longer than the budget.
 */
export async function repeated<T>(
  budget: OutageBudget,
  signal: AbortSignal,
  send: () => Promise<T>,
): Promise<T> {
  for (;;) {
    signal.throwIfAborted();
    try {
      const answer = await budget.settle(send(), signal);
      budget.answered();
      return answer;
    } catch (error) {
      signal.throwIfAborted();
      await budget.recover(error);
    }
  }
}
