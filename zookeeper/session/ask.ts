/**
 * Requests of a call that outlast an outage.
 *
 * @module
 */
import type { OutageBudget } from "../../core/time/outage_budget.ts";
import type { Session } from "./session.ts";

/**
 * Sends a request again and again until it is answered, as `budget.ask()` does. But while there is no
 * connection, it waits for one: thousands of waiters that try every 50 ms would keep the process busy.
 *
 * @throws {unknown} As `budget.ask()` does.
 */
export function askIn<T>(
  session: Session,
  budget: OutageBudget,
  request: () => Promise<T>,
): Promise<T> {
  return budget.ask(() => {
    if (session.isConnected || budget.outageSinceMs === null) return request();
    return budget.settle(session.reconnected(), budget.signal).then(request, (error) => {
      if (session.isOver || budget.signal.aborted) throw error;
      return request(); // The time is over: this fails, and says why there is no connection.
    });
  });
}
