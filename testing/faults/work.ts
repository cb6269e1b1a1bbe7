/**
 * The state that the calls of a worker process share, and the terms of one call.
 *
 * @module
 */
import type { Lease } from "../../mod.ts";
import type { FencedStore } from "../../examples/fenced_store.ts";
import type { Manager, Managers } from "./managers.ts";
import type { Recorder, Tell } from "./recorder.ts";
import type { Habits, WorkerOptions } from "./recording_workers.ts";

/** The state that all calls of the process share. */
export interface Work extends WorkerOptions {
  readonly managers: Managers;
  readonly store: FencedStore;
  readonly random: () => number;
  readonly recorder: Recorder;
  /** Draws whether to follow a habit. */
  does(habit: keyof Habits): boolean;
}

/** One call, as drawn from the habits. */
export interface Play {
  readonly manager: Manager;
  readonly tell: Tell;
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
  /** How long to hold the lock in ms; drawn from the habits if absent. */
  readonly holdMs?: number | undefined;
  /** Whether the lock is not released at disposal. */
  readonly outlives?: boolean;
  /** Makes the call. */
  ask(): Promise<Lease | null>;
}
