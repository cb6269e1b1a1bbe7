/**
 * Locks on a ZooKeeper ensemble.
 *
 * @module
 */
import { capabilitiesOf } from "../core/capabilities.ts";
import type {
  AcquireOptions,
  DistributedLock,
  Lease,
  LockCapabilities,
  LockSnapshot,
  RequestMethod,
  TryAcquireOptions,
} from "../core/distributed_lock.ts";
import { LeaseEngine } from "../core/lease_engine.ts";
import { Lifetime } from "../core/lifetime.ts";
import { requestOn } from "../core/request.ts";
import { checkAcquireOptions, checkName } from "../core/validate.ts";
import { Acquisitions, type Wanted } from "./acquisitions.ts";
import { openNodeZooKeeperClient } from "./transport/node_zookeeper_client.ts";
import { readSettings, type Settings, type ZooKeeperLockOptions } from "./options.ts";
import { znodeName } from "./transport/znode_names.ts";
import { Sessions } from "./session/sessions.ts";
import { readSnapshot } from "./snapshot.ts";

/**
 * Named locks on a ZooKeeper ensemble (tested with 3.8): first in, first out over all processes.
 *
 * Each contender is an ephemeral sequential znode; the lowest number holds the lock, and everybody else
 * watches the one before. The layout is Curator's, so Curator's `InterProcessMutex` on
 * `<rootPath>/<name>` and this class exclude each other, and so do kazoo's `Lock` with
 * `extra_lock_patterns=["-lock-"]` and this class. An uncontended acquire is one round trip.
 *
 * All leases of an instance live in one session, opened on first use. A lease is believed for ¾ of the
 * session timeout after the last *answered write* of the session was sent; while leases are held, a
 * write goes out every sixth of it. When it can be believed no longer all leases are lost with the
 * reason `"session-expired"`, and the next acquire works in a new session. `autoRenew` has no effect,
 * and `renew()` only asks for a proof now.
 *
 * `tryAcquire` enters the queue for a moment. Where it meets nobody but others of its kind, one of them
 * has the lock, or all are about to leave, so it looks for up to 100 ms before it answers `null`.
 * Curator's and kazoo's attempts of that kind cannot be told from those who wait.
 *
 * @see {@link https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks}
 * @see {@link https://curator.apache.org/docs/recipes-shared-reentrant-lock}
 *
 * @example Usage
 * ```ts ignore
 * import { ZooKeeperLock } from "@holdfast/lock/zookeeper";
 *
 * await using locks = new ZooKeeperLock("zk1:2181,zk2:2181,zk3:2181/app", {
 *   sessionTimeoutMs: 10_000,
 * });
 * await using lease = await locks.acquire("orders:42", { signal: AbortSignal.timeout(5_000) });
 * ```
 */
export class ZooKeeperLock implements DistributedLock {
  /** What this strategy promises. */
  readonly capabilities: LockCapabilities = capabilitiesOf({ fifo: "global", endsBy: "session" });
  /** Runs a callback under the lock. See {@linkcode DistributedLock.request}. */
  readonly request: RequestMethod = requestOn(this);
  readonly #settings: Settings;
  readonly #lifetime: Lifetime;
  readonly #engine = new LeaseEngine();
  readonly #sessions: Sessions;
  readonly #acquisitions: Acquisitions;

  /**
   * Creates a manager of locks. Nothing is connected before the first lock is asked for.
   *
   * @param connectString The servers, `host1:2181,host2:2181`, and perhaps a path that all znodes are
   * below, `host1:2181/app`, which is made if it is missing.
   * @param options Root path, session timeout, credentials, label and time limits.
   * @throws {TypeError} If an argument has a wrong type.
   * @throws {RangeError} If an argument is out of range.
   */
  constructor(connectString: string, options: ZooKeeperLockOptions = {}) {
    this.#settings = readSettings(connectString, options);
    this.#lifetime = new Lifetime(options);
    const { rootPath, unavailableAfterMs } = this.#settings;
    const engine = this.#engine;
    this.#sessions = new Sessions({
      clock: engine.clock,
      open: openNodeZooKeeperClient,
      transport: this.#settings,
      connectTimeoutMs: unavailableAfterMs,
      rootPath,
      onProof: (sent, validMs) => engine.extendAll(sent, validMs),
      onOver: () => engine.loseAll("session-expired"),
    });
    const { label } = this.#lifetime;
    const sessions = this.#sessions;
    this.#acquisitions = new Acquisitions({ engine, sessions, label, unavailableAfterMs });
  }

  /** Waits for the lock, first in, first out. See {@linkcode DistributedLock.acquire}. */
  async acquire(name: string, options: AcquireOptions = {}): Promise<Lease> {
    const wanted = this.#want(name, options);
    const lease = await this.#acquisitions.take(wanted, async (contest) => {
      let standing = await contest.enter();
      for (let last = 0; standing.ahead.length > 0; standing = await contest.next(standing)) {
        const position = standing.ahead.length;
        if (position !== last) options.onWait?.({ position, waiters: standing.waiters });
        last = position;
      }
      return true;
    });
    return lease!; // Who waits to the end has the lock.
  }

  /** Takes the lock if it is free. See {@linkcode DistributedLock.tryAcquire}. */
  async tryAcquire(name: string, options: TryAcquireOptions = {}): Promise<Lease | null> {
    const wanted = this.#want(name, options, true);
    return await this.#acquisitions.take(wanted, (contest) => contest.wins());
  }

  /** Tells who holds the lock and who waits. See {@linkcode DistributedLock.query}. */
  async query(name: string): Promise<LockSnapshot> {
    const { parent, signal } = this.#want(name, {});
    return await this.#acquisitions.patiently(
      name,
      signal,
      (session, budget) => budget.ask(() => readSnapshot(session, name, parent)),
    );
  }

  /** Rejects waiters with an `AbortError`, releases what is held, ends the session. Never rejects. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#lifetime.end(async () => {
      const { clock } = this.#engine;
      const { disposeTimeoutMs } = this.#lifetime;
      const endMs = clock.now() + disposeTimeoutMs;
      const leftMs = () => Math.max(0, endMs - clock.now());
      // Time is kept for the session: its end removes at the server what is left of ours.
      await this.#engine.close(disposeTimeoutMs * 3 / 4);
      await this.#acquisitions.tidy(leftMs() / 2);
      await this.#sessions.close(leftMs());
    });
  }

  /** Checks the arguments before anything is sent. */
  #want(name: string, options: AcquireOptions, isBrief = false): Wanted {
    checkName(name);
    checkAcquireOptions(options);
    this.#lifetime.throwIfEnded();
    options.signal?.throwIfAborted();
    return {
      name,
      parent: `${this.#settings.rootPath}/${znodeName(name)}`,
      signal: this.#lifetime.waitSignal(options.signal),
      isBrief,
      ...options.maxHoldMs === undefined ? {} : { maxHoldMs: options.maxHoldMs },
    };
  }
}
