/**
 * What a run of worker processes under faults records, for the checker and the report.
 *
 * @module
 */

/** What happened to a worker's call. Times are in µs of CLOCK_MONOTONIC, which processes share. */
export interface WorkerEvent {
  readonly atUs: number;
  /** Which worker process, and which incarnation of it: `w3.1` after its first restart. */
  readonly worker: string;
  /** The call that it belongs to, unique in the run. */
  readonly call: string;
  /** The lock. */
  readonly name: string;
  readonly kind:
    /** `acquire()` was called. */
    | "invoke"
    /** `onWait` told of a place in line. */
    | "queued"
    /** There is a lease. */
    | "granted"
    /** A renewal was answered: `deadlineUs` is the new one. */
    | "renewed"
    /** The signal aborted, or `throwIfLost()` threw. */
    | "lost"
    /** `release()` was called: from now on the lease is not used. */
    | "releasing"
    /** `release()` has answered. */
    | "released"
    /** `acquire()` rejected; `reason` says with what. */
    | "failed"
    /** The fenced resource took a write, or refused it. */
    | "wrote"
    | "refused";
  /** Of `granted`, `wrote` and `refused`: the fencing token in decimal. */
  readonly token?: string;
  /** Of `granted` and `renewed`: until when the lease is provable by its own reckoning. */
  readonly deadlineUs?: number;
  /** Of `granted`: the owner id's hash, never the id itself. */
  readonly owner?: string;
  /** Of `queued`: the place in line that was told. */
  readonly position?: number;
  /** Of `invoke`: whether it takes the lock away from its holder. */
  readonly steals?: boolean;
  /** For how long the worker's event loop had stood still right before the event, if it was blocked. */
  readonly blockedUs?: number;
  /** Of `wrote` and `refused`: when the write was asked for; `atUs` is when it was answered. */
  readonly sentUs?: number;
  /** Of `lost`, `failed`: why. Of `failed`: `"aborted"` if the worker gave up by itself. */
  readonly reason?: string;
}

/** What the nemesis did. */
export interface FaultEvent {
  readonly atUs: number;
  /** When it was healed; absent for what needs no healing. */
  readonly untilUs?: number;
  /** Its name, as in `--faults`. */
  readonly fault: string;
  /** Whom it hit: a worker, a server, a proxy. */
  readonly target: string;
  /** Whether the server may have lost or changed what it promised: data loss, failover, clock step. */
  readonly destructive: boolean;
  /**
   * Whether waiters that it hits may lose their turn until they ask again. By default all do but
   * delays and a flush of scripts.
   */
  readonly parks?: boolean;
  /** Whether tokens may go back: the last one was lost and the clock was set back. */
  readonly tokensMayRepeat?: boolean;
}

/** What is left after the run, counted at the servers and in the process table. */
export interface Residue {
  readonly what: string;
  readonly count: number;
}

/** One run. */
export interface History {
  readonly seed: number;
  readonly strategy: "redis" | "zookeeper" | "file";
  /** Whether grants follow the order of the queue. */
  readonly fifo: boolean;
  /** How long a lease is good for, at most, after the request by which it was granted or renewed. */
  readonly ttlUs?: number;
  readonly startUs: number;
  readonly endUs: number;
  readonly events: readonly WorkerEvent[];
  readonly faults: readonly FaultEvent[];
  readonly residue: readonly Residue[];
  /** Incarnations that were killed, or ended by themselves, while they had calls under way. */
  readonly crashed?: readonly string[];
}
