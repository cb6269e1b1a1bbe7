/**
 * The public class. How a lock is acquired, held and released is in `acquisition.ts`.
 *
 * @module
 */
import { SYSTEM_CLOCK } from "../core/time/clock.ts";
import { ANSWER_WITHIN_MS } from "../core/time/bounded_wait.ts";
import {
  ACQUIRE_OPTIONS,
  modeOf,
  readMaxWaiters,
  readPrefix,
} from "../core/contract/call_options.ts";
import type {
  AcquireOptions,
  Lease,
  ListableLock,
  ListOptions,
  LockCapabilities,
  LockSnapshot,
  QueryOptions,
  RequestMethod,
} from "../core/contract/distributed_lock.ts";
import { Calls, isPlain } from "../core/lease/calls.ts";
import { LeaseEngine } from "../core/lease/lease_engine.ts";
import { Lifetime } from "../core/lease/lifetime.ts";
import type { CallOptions } from "../core/lease/tracing.ts";
import { Nesting } from "../core/contract/nesting.ts";
import { requestOn } from "../core/contract/request.ts";
import { checkName, readTable } from "../core/contract/options.ts";
import { Acquisition, type CallContext } from "./acquisition.ts";
import { readSettings, ZOOKEEPER_LOCK_OPTIONS, type ZooKeeperLockOptions } from "./options.ts";
import { loadClient } from "./connection/client_module.ts";
import { OutageBudget } from "../core/time/outage_budget.ts";
import { classifyFailure, nullIfMissing } from "./connection/failures.ts";
import { openNodeZooKeeperClient } from "./connection/node_zookeeper_client.ts";
import { lockNameOf, znodeName } from "./connection/znode_names.ts";
import { IdleLocks } from "./idle_locks.ts";
import type { Session } from "./session/session.ts";
import { Sessions } from "./session/sessions.ts";
import { readSnapshot } from "./snapshot.ts";

/** Least time in ms for closing the session, if the releases have used up `disposeTimeoutMs`. */
const CLOSE_MS = 100;

/**
 * Named locks on a ZooKeeper ensemble (tested with 3.8): first in, first out over all processes.
 *
 * The holder and each waiter have an ephemeral sequential znode. The znode with the lowest number holds the lock, and
 * each waiter watches the znode directly before its own. Shared ones (`mode: "shared"`) hold it together if they are
 * the lowest, and watch the exclusive one before theirs. An acquire of a free lock takes one round trip.
 *
 * The layout is Curator's, so this class and Curator's `InterProcessMutex` on `<rootPath>/<name>` exclude each other.
 * So do this class and kazoo's `Lock` with `extra_lock_patterns=["-lock-"]`.
 *
 * All leases of an instance belong to one session, which is opened on first use. While leases are held, a heartbeat
 * is written six times per session timeout, and each *answered write* proves the session: for two thirds of the
 * timeout as a rule, for less after an idle time. When the last proof is used up, all leases are lost with the reason
 * `"session-expired"`, and the next acquire opens a new session. `autoRenew` has no effect, and `renew()` sends a
 * heartbeat at once.
 *
 * `tryAcquire` enters the queue for a moment. If only other `tryAcquire` calls are ahead of it, one of them holds the
 * lock or all of them are about to leave. So it waits for up to 100 ms before it returns `null`. Attempts of Curator
 * and kazoo without a wait look like waiters, so they make it return `null`.
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
 * await using lease = await locks.acquire("orders:42", { waitMs: 5_000 });
 * lease.throwIfLost();
 * ```
 */
export class ZooKeeperLock implements ListableLock {
  /** The guarantees of this strategy. */
  readonly capabilities: LockCapabilities = Object.freeze({
    fifo: "global",
    endsBy: "session",
    steal: false,
    attach: false,
    shared: true,
    limit: false,
    list: true,
  });
  readonly #nesting = new Nesting(this);
  /** Runs a callback under the lock. See {@linkcode DistributedLock.request}. */
  readonly request: RequestMethod = requestOn(this, {
    options: ACQUIRE_OPTIONS,
    nesting: this.#nesting,
  });
  readonly #rootPath: string;
  readonly #lifetime: Lifetime;
  readonly #context: CallContext;
  readonly #calls: Calls;

  /**
   * Creates a manager of locks. Nothing is sent: the first call connects.
   *
   * @param servers The servers, `host1:2181,host2:2181`, and optionally a path that all znodes are below,
   * `host1:2181/app`, which is created if it is missing. Or a function that returns the servers, without
   * a path. It is called again at each connect, and each host is looked up again.
   * @param options Root path, session timeout, credentials, TLS, label and time limits.
   * @throws {LockSetupError} If the client package is missing, which can be so on Node and Bun only.
   * @throws {TypeError} If an argument has a wrong type.
   * @throws {RangeError} If an argument is out of range.
   */
  constructor(
    servers: string | (() => string | Promise<string>),
    options: ZooKeeperLockOptions = {},
  ) {
    const read = readTable("new ZooKeeperLock()", options, ZOOKEEPER_LOCK_OPTIONS);
    this.#lifetime = new Lifetime(read);
    const [lifetime, nesting] = [this.#lifetime, this.#nesting];
    this.#calls = new Calls({ strategy: "zookeeper", lock: this, lifetime, nesting }, {
      wait: async (name, options) => (await this.#begin(name, options, false).acquire())!, // no try
      tryOnce: async (name, options, withinMs) =>
        await this.#begin(name, options, true, withinMs).acquire(),
      look: async (name) => {
        this.#lifetime.throwIfEnded();
        return await this.#query(name, 0, ANSWER_WITHIN_MS);
      },
    });
    const { rootPath, ...settings } = readSettings(servers, read, this.#lifetime.warn);
    loadClient(); // a missing package is reported here, not at the first call
    const engine = new LeaseEngine("zookeeper", SYSTEM_CLOCK, read.onRenewalLate);
    const sessions = new Sessions(engine, rootPath, settings, openNodeZooKeeperClient);
    this.#rootPath = rootPath;
    this.#context = {
      engine,
      sessions,
      queues: new Map(),
      idleLocks: new IdleLocks(engine, sessions),
      ended: this.#lifetime.ended,
      outage: {
        clock: engine.clock,
        service: "ZooKeeper",
        unavailableAfterMs: read.unavailableAfterMs,
        classify: classifyFailure,
        client: sessions,
      },
    };
  }

  /**
   * Waits for the lock, first in, first out. See {@linkcode DistributedLock.acquire}.
   *
   * @throws {LockTimeoutError} If `waitMs` is over.
   * @throws {LockUnavailableError} If ZooKeeper is out of reach, or of no use, for `unavailableAfterMs`, or
   * at the end of `waitMs`.
   * @throws {LockSetupError} If ZooKeeper refuses the credentials or denies access.
   * @throws {TypeError} If an argument has a wrong type.
   * @throws {RangeError} If an argument is out of range.
   * @throws {unknown} `signal.reason` if the signal aborts. After disposal, a `DOMException`.
   */
  async acquire(name: string, options: AcquireOptions = {}): Promise<Lease> {
    const read = this.#calls.read(name, options);
    // It is no try, so there is a lease.
    if (isPlain(read)) return (await this.#begin(name, read, false).acquire())!;
    return await this.#calls.acquire(name, read);
  }

  /**
   * Acquires the lock if it is free, otherwise returns `null`. See
   * {@linkcode DistributedLock.tryAcquire}. Rejects as `acquire()` does.
   */
  async tryAcquire(name: string, options: AcquireOptions = {}): Promise<Lease | null> {
    return await this.#calls.tryAcquire(name, this.#calls.read(name, options));
  }

  /**
   * Reads the holders and the waiters of the lock. See {@linkcode DistributedLock.query}. Creates no
   * znode. Rejects as `acquire()` does.
   */
  async query(name: string, options: QueryOptions = {}): Promise<LockSnapshot> {
    const maxWaiters = readMaxWaiters(options);
    checkName(name);
    this.#lifetime.throwIfEnded();
    return await this.#query(name, maxWaiters, Infinity);
  }

  /**
   * Lists the names of the locks that are held or were used lately, in one request: the children of `rootPath`. A
   * name whose znode name is longer than 1,000 characters is listed as `%sha256-` and its hash. An answer of more
   * than 16 MB is not read: it ends the connection, again and again for `unavailableAfterMs`. So where there are
   * hundreds of thousands of names, use an instance without leases. See {@linkcode ListableLock.list}.
   */
  list(options: ListOptions = {}): AsyncIterable<string> {
    const prefix = readPrefix(options);
    this.#lifetime.throwIfEnded();
    return this.#names(prefix);
  }

  async *#names(prefix: string): AsyncGenerator<string> {
    const root = this.#rootPath;
    const children = await this.#read(`${prefix}*`, Infinity, (session) => {
      return session.children(root).catch(nullIfMissing);
    });
    for (const child of children?.names ?? []) {
      const name = lockNameOf(child);
      if (name?.startsWith(prefix)) yield name;
    }
  }

  /**
   * Disposes of the instance: waiting calls reject with an `AbortError`, leases end for their holders, who
   * get half of `disposeTimeoutMs` to stop, and are released; then the session is closed. Never rejects.
   */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#lifetime.end(async () => {
      const { engine, sessions, idleLocks } = this.#context;
      const { disposeTimeoutMs } = this.#lifetime;
      const endMs = engine.clock.now() + disposeTimeoutMs;
      const leftMs = () => Math.max(0, endMs - engine.clock.now());
      // Some time must be left to close the session, because the server then deletes our last znodes.
      await engine.close(disposeTimeoutMs * 3 / 4, disposeTimeoutMs / 2);
      await idleLocks.deleteAll(leftMs() / 2);
      await sessions.close(Math.max(leftMs(), CLOSE_MS));
    });
  }

  /** An outage may last for `withinMs` at most. */
  #begin(
    name: string,
    options: CallOptions,
    isTry: boolean,
    withinMs = Infinity,
  ): Acquisition {
    const { signal, maxHoldMs, onWait, label = this.#lifetime.label, call } = options;
    signal?.throwIfAborted();
    return new Acquisition(this.#context, {
      name,
      lockPath: this.#pathOf(name),
      mode: modeOf(options),
      isTry,
      onWait,
      label,
      maxHoldMs,
      signal,
      withinMs,
      call,
    });
  }

  #query(name: string, maxWaiters: number, withinMs: number): Promise<LockSnapshot> {
    const path = this.#pathOf(name);
    return this.#read(name, withinMs, (session) => readSnapshot(session, name, path, maxWaiters));
  }

  /** Reads in this session, or in the next one. An outage may last for `withinMs` at most. */
  async #read<T>(
    name: string,
    withinMs: number,
    read: (session: Session) => Promise<T>,
  ): Promise<T> {
    const { sessions, outage, ended } = this.#context;
    const budget = new OutageBudget(outage, name, ended, withinMs);
    for (;;) {
      try {
        const session = sessions.live() ?? await sessions.within(budget);
        return await budget.ask(() => read(session));
      } catch (error) {
        await budget.recover(error);
      }
    }
  }

  #pathOf(name: string): string {
    return `${this.#rootPath}/${znodeName(name)}`;
  }
}
