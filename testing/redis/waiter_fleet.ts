/**
 * Many waiters for one lock in this process, spread over several instances with a client each.
 *
 * @module
 */
import { assert } from "@std/assert";
import { type Lease, LeaseLostError, LockUnavailableError } from "../../mod.ts";
import { RedisLock, type RedisLockOptions } from "../../redis/mod.ts";
import type { RedisClientName } from "../conformance/open_lock.ts";
import { within } from "../conformance/bounds.ts";
import { pause } from "../servers/wait.ts";
import { openRedisClient } from "./clients.ts";
import type { Grant } from "../processes/workers.ts";
import { CONDITION_BOUND_MS, LONG_BOUND_MS } from "../time.ts";

/** How long in ms a waiter may wait for one lease before the test fails. */
const WAIT_BOUND_MS = LONG_BOUND_MS;

/** Options of {@linkcode startFleet}. */
export interface FleetOptions {
  /** The servers: one instance per URL. */
  readonly urls: readonly string[];
  readonly name: string;
  readonly waiters: number;
  readonly client?: RedisClientName;
  /** By default it outlasts any outage of a test. */
  readonly options?: RedisLockOptions;
  /** How long in ms each waiter holds the lock. */
  readonly holdMs?: number;
}

/** How many waiters {@linkcode startFifty} starts. */
export const WAITERS = 50;

/** A running fleet: each waiter acquires and releases the lock in a loop. */
export interface Fleet extends AsyncDisposable {
  readonly grants: Grant[];
  readonly locks: readonly RedisLock[];
  /** How often two leases were valid at once, or were not granted in the order of their tokens. */
  readonly overlaps: number;
  /** How many calls failed because the server was out of reach. */
  readonly refusals: number;
  /** Grants each waiter the lock once more, and ends the fleet. */
  finish(): Promise<void>;
}

/** Counts leases of one lock that overlap. */
export class Gauge {
  overlaps = 0;
  #holder: Lease | null = null;
  #token = 0n;

  /** A critical section begins under this lease. */
  enter(lease: Lease): void {
    if (this.#holder !== null && this.#holder.remainingMs > 0) this.overlaps++;
    if (lease.fencingToken <= this.#token) this.overlaps++;
    this.#token = lease.fencingToken;
    this.#holder = lease;
  }

  /** The critical section ends. */
  leave(lease: Lease): void {
    if (this.#holder === lease) this.#holder = null;
  }
}

/** Starts 50 waiters over as many instances as there are URLs. */
export function startFifty(urls: readonly string[], name: string, holdMs = 0): Promise<Fleet> {
  return startFleet({ urls, name, waiters: WAITERS, holdMs, options: { ttlMs: 10_000 } });
}

/** The URL four times: four instances on one server. */
export function fourOf(url: string): string[] {
  return Array.from({ length: 4 }, () => url);
}

/** Starts the waiters. */
export async function startFleet(fleet: FleetOptions): Promise<Fleet> {
  const { urls, client = "node-redis", waiters, options = {} } = fleet;
  const clients = await Promise.all(urls.map((url) => openRedisClient(client, url)));
  const locks = clients.map(({ client }) =>
    new RedisLock(client, { unavailableAfterMs: CONDITION_BOUND_MS, ...options })
  );
  const gauge = new Gauge();
  const grants: Grant[] = [];
  const state = { done: false, refusals: 0 };
  const running = Promise.all(Array.from({ length: waiters }, async (_, i) => {
    while (!state.done) {
      const grant = await turn(locks[i % locks.length]!, fleet, gauge);
      if (grant !== null) grants.push(grant);
      else if (!state.done) {
        state.refusals++;
        await pause(20);
      }
    }
  }));
  running.catch(() => {}); // finish() reports it
  return {
    grants,
    locks,
    get overlaps() {
      return gauge.overlaps;
    },
    get refusals() {
      return state.refusals;
    },
    async finish() {
      state.done = true;
      await running;
    },
    async [Symbol.asyncDispose]() {
      state.done = true;
      await Promise.all(locks.map((lock) => lock[Symbol.asyncDispose]()));
      await running.catch(() => {});
      await Promise.all(clients.map(({ close }) => close()));
    },
  };
}

function nowUs(): number {
  return performance.now() * 1_000;
}

/** Runs one critical section. Returns `null` if the server was out of reach. */
async function turn(
  lock: RedisLock,
  { name, holdMs = 0 }: FleetOptions,
  gauge: Gauge,
): Promise<Grant | null> {
  const calledUs = nowUs();
  let queuedUs: number | null = null;
  const onWait = () => void (queuedUs ??= nowUs());
  let lease: Lease;
  try {
    lease = await within("nobody waits forever", lock.acquire(name, { onWait }), WAIT_BOUND_MS);
  } catch (error) {
    if (error instanceof LockUnavailableError) return null;
    throw error;
  }
  gauge.enter(lease);
  if (holdMs > 0) await pause(holdMs);
  gauge.leave(lease);
  const { fencingToken: token, signal } = lease;
  await lease.release();
  assert(!signal.aborted || signal.reason instanceof LeaseLostError);
  return { token: String(token), calledUs, queuedUs };
}
