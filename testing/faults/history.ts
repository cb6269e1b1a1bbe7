/**
 * The record of a run of worker processes under faults, as the checker and the report read it.
 *
 * @module
 */

/** An event of a worker's call. Times are in µs of CLOCK_MONOTONIC, which processes share. */
export interface WorkerEvent {
  readonly atUs: number;
  /** The worker process with its incarnation: `w3.1` is `w3` after its first restart. */
  readonly worker: string;
  /** The id of the call, unique in the run. */
  readonly call: string;
  /** The lock; empty in `disposing` and `disposed`. */
  readonly name: string;
  /** Which of the worker's lock managers the call uses, from 1; absent for the first. */
  readonly instance?: number;
  readonly kind:
    /** `acquire()` was called. */
    | "invoke"
    /** `onWait` was called for the first time. */
    | "queued"
    /** The call got a lease. */
    | "granted"
    /** A renewal was answered; `deadlineUs` is the new deadline. */
    | "renewed"
    /** The signal aborted, or `throwIfLost()` threw. */
    | "lost"
    /** `release()` was called; the lease is not used from now on. */
    | "releasing"
    /** `release()` has resolved. */
    | "released"
    /** `acquire()` rejected; `reason` says why. */
    | "failed"
    /** The fenced resource accepted a write, or refused it. */
    | "wrote"
    | "refused"
    /** The disposal of the lock manager was begun; it has resolved. */
    | "disposing"
    | "disposed";
  /** Of `granted`, `wrote` and `refused`: the fencing token in decimal. */
  readonly token?: string;
  /** Of `granted` and `renewed`: until when the lease is provable, as the lease itself computes it. */
  readonly deadlineUs?: number;
  /**
   * A hash of the owner id, never the id itself. Of `granted`, and of `invoke` if the caller chose the id.
   */
  readonly owner?: string;
  /** Of `invoke` and `renewed`: the TTL that was asked for, in µs, if it was not the usual one. */
  readonly ttlUs?: number;
  /** Of `granted`: whether the lock is not released at disposal. */
  readonly outlives?: boolean;
  /** Of `queued`: the position that `onWait` reported. */
  readonly position?: number;
  /** Of `invoke`: whether it is a shared call, and how many holders it allows. */
  readonly mode?: "shared";
  readonly limit?: number;
  /** Of `invoke`: whether the call steals the lock. */
  readonly steals?: boolean;
  /** How long the worker's event loop was blocked right before the event, if it was. */
  readonly blockedUs?: number;
  /** Of `wrote` and `refused`: when the write was sent; `atUs` is when it was answered. */
  readonly sentUs?: number;
  /** Of `lost` and `failed`: the reason. Of `failed`: `"aborted"` if the worker itself gave up. */
  readonly reason?: string;
}

/** A fault that the nemesis caused. */
export interface FaultEvent {
  readonly atUs: number;
  /** When it was healed; absent if it needs no healing. */
  readonly untilUs?: number;
  /** Its name, as in `--faults`. */
  readonly fault: string;
  /** The worker, server or link that it hit. */
  readonly target: string;
  /** The locks that it hit; all by default. */
  readonly names?: readonly string[];
  /** Whether the server may have lost or changed leases: data loss, failover, clock step. */
  readonly destructive: boolean;
  /**
   * Whether waiters that it hits may be parked until they ask again. By default true, except for delays
   * and a flush of scripts.
   */
  readonly parks?: boolean;
  /** Whether tokens may decrease: the last token was lost and the clock was set back. */
  readonly tokensMayRepeat?: boolean;
}

/** Things left after the run, counted on the servers and in the process table. */
export interface Residue {
  readonly what: string;
  readonly count: number;
}

/** One run. */
export interface History {
  readonly seed: number;
  readonly strategy: "redis" | "zookeeper" | "file";
  /** Whether grants follow the order of one queue for all processes. */
  readonly fifo: boolean;
  /** The longest validity of a lease, in µs, from the request that granted or renewed it. */
  readonly ttlUs?: number;
  /** How long, in µs, a lock is kept for the holder whose lock manager is disposed; 0 by default. */
  readonly keptUs?: number;
  readonly startUs: number;
  readonly endUs: number;
  readonly events: readonly WorkerEvent[];
  readonly faults: readonly FaultEvent[];
  readonly residue: readonly Residue[];
  /** Incarnations that were killed, or died, while they had calls under way. */
  readonly crashed?: readonly string[];
}
