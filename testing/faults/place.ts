/**
 * The interfaces of a run: the place where the locks live, and the faults that happen there.
 *
 * @module
 */
import type { LockSpec } from "../conformance/lock_spec.ts";
import type { FaultProxy } from "../servers/proxy.ts";
import type { Fleet } from "./fleet.ts";
import type { FaultEvent, History, Residue } from "./history.ts";

/** A lock service with its servers, and the links between them and the workers. */
export interface Place extends AsyncDisposable {
  readonly strategy: History["strategy"];
  /** Whether grants follow the order of one queue for all processes. */
  readonly fifo: boolean;
  /** How long in ms a lease lives without renewal. */
  readonly ttlMs: number;
  /** How a worker opens its lock. */
  specFor(worker: number): LockSpec;
  /** The proxies between a worker and its servers. */
  linksOf(worker: number): readonly FaultProxy[];
  /** The faults of this service, in addition to those of workers and links. */
  readonly faults: FaultTable;
  /** Faults that are impossible on this machine, with the reason. */
  readonly skipped: Readonly<Record<string, string>>;
  /** Repairs what faults have left, before the workers finish. Resolves with a fault if that is one too. */
  heal(): Promise<Healing | void>;
  /** Counts what the workers left after all have ended; waits up to `boundMs` until it is nothing. */
  residue(boundMs: number): Promise<Residue[]>;
}

/** A repair that is a fault itself, such as setting a clock right. */
export type Healing = Pick<FaultEvent, "target" | "destructive" | "tokensMayRepeat">;

/** Everything that a fault can act on, with the random choices of the run. */
export interface Stage {
  readonly place: Place;
  readonly fleet: Fleet;
  readonly random: () => number;
  /** Draws one of the items. */
  pick<T>(items: readonly T[]): T;
}

/** One kind of fault. */
export interface Fault {
  /** See {@linkcode FaultEvent}. */
  readonly destructive?: boolean;
  readonly parks?: boolean;
  /** Causes the fault, heals it, and resolves with its target or with its whole outcome. */
  run(stage: Stage): Promise<string | FaultOutcome>;
}

/** The properties of a fault that are known only after it happened. */
export type FaultOutcome = Pick<FaultEvent, "target" | "names" | "tokensMayRepeat">;

/** Faults by name. */
export type FaultTable = Readonly<Record<string, Fault>>;
