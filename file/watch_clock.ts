/**
 * The clock of the leases on files.
 *
 * @module
 */
import { type Clock, SYSTEM_CLOCK } from "../core/time/clock.ts";

/**
 * The system's clock with timers that do not keep the process alive. The kernel frees the lock when
 * the process ends, so there is no need to stay for it.
 */
export const WATCH_CLOCK: Clock = {
  ...SYSTEM_CLOCK,
  schedule(callback, delayMs) {
    const cancel = SYSTEM_CLOCK.schedule(callback, delayMs);
    cancel.hold?.(false);
    return cancel;
  },
};
