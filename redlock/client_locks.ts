import type { Lease } from "../core/contract/distributed_lock.ts";
import { LeaseLostError, LockUnavailableError } from "../core/contract/errors.ts";
import { acquireAll } from "../core/sets/acquire_all.ts";
import { type LeaseSet, leaseSetOf } from "../core/sets/lease_set.ts";
import { settledWithin, SYSTEM_CLOCK, TIMED_OUT, withinSteps } from "../core/time/clock.ts";
import { ioredis } from "../redis/clients/ioredis.ts";
import { OWN_NONCE, type OwnNonceOptions } from "../redis/options.ts";
import { makeNonce } from "../redis/protocol/keys.ts";
import { RedisLock } from "../redis/redis_lock.ts";
import { onAbort } from "./clocked_signal.ts";
import type { RedlockClient } from "./settings.ts";

/** How long, in ms, a call waits for an extension or a release; both go on in the background while the lock lasts. */
const ANSWER_TIMEOUT_MS = 5_000;
const ANSWER_STEPS = 10;
/** How long, in ms, `quit()` waits for the releases of what is held. */
const DISPOSE_TIMEOUT_MS = 500;
/** How long, in ms, a mere proof that a lock is held keeps it, at least; longer if several locks are taken over. */
const PROOF_TTL_MS = 1_000;
const PROOF_TTL_PER_LOCK_MS = 50;

/** The leases of a lock. */
interface HeldSet {
  /** What the keys hold. */
  readonly value: string;
  readonly set: LeaseSet;
  /** The name of one that is lost. */
  readonly lost?: string;
}

/** What a lock of redlock says of itself. It may come from another process or object. */
interface LockHandle {
  readonly value: string;
  readonly resources: readonly string[];
}

const locksOf = new WeakMap<RedlockClient, ClientLocks>();

/** @throws {LockSetupError} If the client is not one of ioredis, or has a `keyPrefix`. */
export function clientLocks(client: RedlockClient): ClientLocks {
  let locks = locksOf.get(client);
  if (locks === undefined) locksOf.set(client, locks = new ClientLocks(client));
  return locks;
}

/** What the `Redlock`s on one client share: a program may make one per call, and can end it only with the client. */
export class ClientLocks {
  readonly #client: RedlockClient;
  /** By the setting `handoff`; empty until they are needed, and again when the client has ended. */
  readonly #opened = new Map<boolean, RedisLock>();
  /** Each until it is lost or released, by what its keys hold. */
  readonly #held = new Map<string, LeaseSet>();
  /** The nonces of calls that acquire or take over, by owner id, one each: after a clean-up its value is refused. */
  readonly #nonces = new Map<string, string>();

  constructor(client: RedlockClient) {
    this.#client = client;
    ioredis(client); // first: its listener connects a client again that a failover has ended
    client.on("end", () => {
      if ((client.status ?? "end") === "end") void this.close();
    });
  }

  /** @throws As {@linkcode acquireAll}, or as a renewal. */
  async acquire(
    names: readonly string[],
    terms: {
      readonly ttlMs: number;
      readonly autoRenew: boolean;
      readonly waitMs: number | undefined;
    },
    handoff: boolean,
  ): Promise<HeldSet> {
    const ownerId = crypto.randomUUID();
    const nonce = makeNonce();
    this.#nonces.set(ownerId, nonce);
    try {
      const set = await acquireAll(this.#open(handoff), names, { ...terms, ownerId });
      // The first ones are older by the time that the last one was waited for.
      if (names.length > 1) {
        await inTime(renewAll(set, terms.ttlMs)).catch(async (error) => {
          await settledWithin(SYSTEM_CLOCK, set.release(), ANSWER_TIMEOUT_MS);
          throw error;
        });
      }
      return this.#hold(`${ownerId}#${nonce}`, set);
    } finally {
      this.#nonces.delete(ownerId);
    }
  }

  /** Resolves with the leases, under another value if they were taken over. Throws if one of them is lost. */
  async extend(lock: LockHandle, duration: number, handoff: boolean): Promise<HeldSet> {
    const isKnown = this.#held.has(lock.value);
    try {
      return await this.#renew(lock, duration, handoff);
    } catch (error) {
      if (!isKnown || !(error instanceof LeaseLostError)) throw error;
      // Another process may have taken it over by its value.
      this.#held.delete(lock.value);
      return await this.#renew(lock, duration, handoff);
    }
  }

  /** @throws {LeaseLostError} If one of the leases was lost before. The others are released. */
  async release(lock: LockHandle, handoff: boolean): Promise<void> {
    let { set, lost } = await this.#take(lock, handoff);
    let isOurs = await inTime(set.release());
    if (!isOurs && lost === undefined) { // another process may have taken it over by its value
      ({ set, lost } = await this.#take(lock, handoff));
      isOurs = await inTime(set.release());
    }
    if (isOurs && lost === undefined) return;
    throw new LeaseLostError(lost ?? lock.resources.join(), "expired");
  }

  /** Releases what is held. */
  async close(): Promise<void> {
    const opened = [...this.#opened.values()];
    this.#opened.clear();
    this.#held.clear();
    await Promise.all(opened.map((locks) => locks[Symbol.asyncDispose]()));
  }

  #open(handoff: boolean): RedisLock {
    const opened = this.#opened.get(handoff);
    if (opened !== undefined) return opened;
    const options: OwnNonceOptions = {
      keyPrefix: "",
      handoff,
      disposeTimeoutMs: DISPOSE_TIMEOUT_MS,
      [OWN_NONCE]: (ownerId) => this.#nonces.get(ownerId),
    };
    const locks = new RedisLock(ioredis(this.#client), options);
    this.#opened.set(handoff, locks);
    return locks;
  }

  #hold(value: string, set: LeaseSet): HeldSet {
    this.#held.set(value, set);
    onAbort(set.signal, () => this.#held.delete(value));
    return { value, set };
  }

  /** Renews the leases of a lock. As with redlock, none is extended unless all of them are held. */
  async #renew(lock: LockHandle, duration: number, handoff: boolean): Promise<HeldSet> {
    const { value, set, lost } = await this.#find(lock, duration, handoff);
    if (lost !== undefined) throw new LeaseLostError(lost, "expired");
    if (set.leases.size > 1) await inTime(renewAll(set, Math.min(duration, PROOF_TTL_MS)));
    await inTime(renewAll(set, duration));
    return { value, set };
  }

  /** Finds the leases of a lock, to release them. */
  async #take(lock: LockHandle, handoff: boolean): Promise<HeldSet> {
    const found = await this.#find(lock, undefined, handoff);
    this.#held.delete(found.value);
    return found;
  }

  /**
   * The leases of a lock, and the name of one that is lost. A lock of another process or object is taken over by its
   * value. `duration` is what to extend it to afterwards; `undefined` to release it, if need be only in part.
   */
  async #find(
    { value, resources }: LockHandle,
    duration: number | undefined,
    handoff: boolean,
  ): Promise<HeldSet> {
    const known = this.#held.get(value);
    if (known !== undefined) return { value, set: known };
    const ownerId = value.replace(/#[^#]*$/, "");
    if (ownerId === "") return { value, set: leaseSetOf([]), lost: resources.join() };
    const nonce = makeNonce();
    const proofMs = PROOF_TTL_MS + PROOF_TTL_PER_LOCK_MS * resources.length;
    const ttlMs = Math.min(duration ?? Infinity, proofMs);
    const leases: Lease[] = [];
    let lost: string | undefined;
    try {
      for (const name of [...resources].sort()) {
        this.#nonces.set(ownerId, nonce);
        const attaching = this.#open(handoff).attach(name, ownerId, { autoRenew: false, ttlMs });
        this.#nonces.delete(ownerId); // the call has read it
        const lease = await attaching;
        if (lease === null) lost = name;
        else leases.push(lease);
        if (lost !== undefined && duration !== undefined) break;
      }
    } catch (error) {
      if (duration === undefined) await Promise.allSettled(leases.map((lease) => lease.release()));
      throw error;
    }
    const set = leaseSetOf(leases);
    if (lost !== undefined) return { value, set, lost };
    return this.#hold(`${ownerId}#${nonce}`, set);
  }
}

/** Waits for an answer, but not for as long as an outage may last. */
async function inTime<T>(answer: Promise<T>): Promise<T> {
  const stepMs = ANSWER_TIMEOUT_MS / ANSWER_STEPS;
  const result = await withinSteps(SYSTEM_CLOCK, answer, stepMs, ANSWER_STEPS);
  if (result !== TIMED_OUT) return result;
  throw new LockUnavailableError(
    `Cannot reach Redis: it has not answered in time for ${ANSWER_TIMEOUT_MS} ms`,
  );
}

async function renewAll(set: LeaseSet, duration: number): Promise<void> {
  await Promise.all(Array.from(set.leases.values(), (lease) => lease.renew(duration)));
}
