/**
 * The contents of an acquire call, after its arguments were checked.
 *
 * @module
 */
import type { WaitInfo } from "../core/distributed_lock.ts";
import type { OutageBudget } from "../core/outage_budget.ts";
import type { HoldTerms } from "./hold.ts";

/** The arguments and options of an acquire call. */
export interface AcquisitionRequest extends HoldTerms {
  readonly name: string;
  readonly autoRenew: boolean;
  readonly maxHoldMs: number | undefined;
  readonly budget: OutageBudget;
  /** How long in ms an outage may last before the call gives up. */
  readonly unavailableAfterMs: number;
  readonly callerSignal: AbortSignal | undefined;
  /** Aborts at disposal. */
  readonly ended: AbortSignal;
  /** The caller's option: is called when the call starts to wait. */
  readonly onWait: ((info: WaitInfo) => void) | undefined;
}
