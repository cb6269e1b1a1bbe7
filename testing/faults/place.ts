/**
 * What a run needs of the service that keeps the locks.
 *
 * @module
 */
import type { LockSpec } from "../conformance/lock_spec.ts";
import type { FaultProxy } from "../servers/proxy.ts";
import type { Fleet } from "./fleet.ts";
import type { FaultEvent, History, Residue } from "./history.ts";

/** A service, its servers and what stands between them and the workers. */
export interface Place extends AsyncDisposable {
  readonly strategy: History["strategy"];
  /** Whether grants follow the order of the queue. */
  readonly fifo: boolean;
  /** How long in ms a lease lives without renewal. */
  readonly ttlMs: number;
  /** How a worker opens its lock. */
  specFor(worker: number): LockSpec;
  /** What a worker's connections go through. */
  linksOf(worker: number): readonly FaultProxy[];
  /** The faults of this service, besides those of workers and links. */
  readonly faults: FaultTable;
  /** Faults that cannot be had here, and why. */
  readonly skipped: Readonly<Record<string, string>>;
  /** Undoes what faults have left, before the workers come to their end; tells if that is a fault, too. */
  heal(): Promise<Healing | void>;
  /** What is left of the workers when all are gone; waits until it is nothing, for a while. */
  residue(boundMs: number): Promise<Residue[]>;
}

/** A fault that undoes another: a clock that is set back, say. */
export type Healing = Pick<FaultEvent, "target" | "destructive" | "tokensMayRepeat">;

/** What faults act on. */
export interface Stage {
  readonly place: Place;
  readonly fleet: Fleet;
  readonly random: () => number;
  /** Draws one. */
  pick<T>(items: readonly T[]): T;
}

/** One kind of fault. */
export interface Fault {
  /** As in {@linkcode FaultEvent}. */
  readonly destructive?: boolean;
  readonly parks?: boolean;
  /** Does it, undoes it, and says whom it hit; perhaps more. */
  run(stage: Stage): Promise<string | FaultOutcome>;
}

/** What is known of a fault only when it was done. */
export type FaultOutcome = Pick<FaultEvent, "target" | "tokensMayRepeat">;

/** Faults by name. */
export type FaultTable = Readonly<Record<string, Fault>>;
