/**
 * An instance of the strategy on a tree in memory: its calls, without servers and without the public class.
 *
 * @module
 */
import type { LockMode, WaitInfo } from "../../core/contract/distributed_lock.ts";
import { LeaseEngine } from "../../core/lease/lease_engine.ts";
import type { ManagedLease } from "../../core/lease/lease.ts";
import { Acquisition, type CallContext } from "../../zookeeper/acquisition.ts";
import { classifyFailure } from "../../zookeeper/connection/failures.ts";
import { IdleLocks } from "../../zookeeper/idle_locks.ts";
import { Sessions } from "../../zookeeper/session/sessions.ts";
import { FakeClock } from "../core/fake_clock.ts";
import { FakeTransport, type FakeTree, ROOT_PATH, SETTINGS, settle } from "./fake_zookeeper.ts";

const { unavailableAfterMs: UNAVAILABLE_AFTER_MS } = SETTINGS;

/** How to call. */
export interface FakeCallOptions {
  readonly mode?: LockMode;
  readonly isTry?: boolean;
  /** Whether the call has no `onWait`. */
  readonly isSilent?: boolean;
  readonly onWait?: (info: WaitInfo) => void;
}

/** A call of a fake instance. */
export class FakeCall {
  readonly acquisition: Acquisition;
  /** The lease, or `null`. */
  readonly lease: Promise<ManagedLease | null>;
  /** What `onWait` was called with. */
  readonly infos: WaitInfo[] = [];
  readonly abort = new AbortController();
  granted = false;
  readonly #transport: FakeTransport;
  readonly #index: number;

  /** Sends the first requests. */
  constructor(instance: FakeInstance, lockPath: string, options: FakeCallOptions) {
    const { context, transport } = instance;
    this.#transport = transport;
    this.#index = transport.created.length;
    const onWait = (info: WaitInfo) => {
      this.infos.push(info);
      options.onWait?.(info);
    };
    this.acquisition = new Acquisition(context, {
      name: "n",
      lockPath,
      mode: options.mode ?? "exclusive",
      isTry: options.isTry ?? false,
      onWait: options.isSilent ? undefined : onWait,
      label: "",
      withinMs: Infinity,
      maxHoldMs: undefined,
      signal: this.abort.signal,
    });
    this.lease = this.acquisition.acquire();
    this.lease.then((lease) => this.granted = lease !== null, () => {});
  }

  /** The path of its znode: of the first one, if it made several. */
  get path(): string {
    return this.#transport.created[this.#index]!;
  }

  /** Releases the lock. */
  async release(): Promise<boolean> {
    return (await this.lease)!.release();
  }

  /** Ends the call, and waits until it has deleted its znode. */
  async giveUp(): Promise<void> {
    this.abort.abort(new Error("enough"));
    await this.lease.catch(() => {});
    await settle();
  }
}

/** An instance, in its first session. */
export class FakeInstance {
  readonly clock = new FakeClock();
  readonly engine = new LeaseEngine("test", this.clock);
  /** The transport of the current session. */
  transport!: FakeTransport;
  /** Whether a server accepts new sessions. */
  isReachable = true;
  readonly sessions: Sessions;
  readonly context: CallContext;

  private constructor(tree: FakeTree) {
    const { clock, engine } = this;
    const sessions = this.sessions = new Sessions(engine, ROOT_PATH, SETTINGS, () => {
      const transport = this.transport = new FakeTransport(tree);
      transport.state = "connecting";
      if (this.isReachable) queueMicrotask(() => transport.become("connected"));
      return transport;
    });
    this.context = {
      engine,
      sessions,
      queues: new Map(),
      idleLocks: new IdleLocks(engine, sessions),
      ended: new AbortController().signal,
      outage: {
        clock,
        service: "ZooKeeper",
        unavailableAfterMs: UNAVAILABLE_AFTER_MS,
        classify: classifyFailure,
        client: this.sessions,
      },
    };
  }

  /**
   * Opens an instance and its session.
   *
   * @param isPrepared Whether the znode of the heartbeat is made already, as by an earlier call.
   */
  static async open(tree: FakeTree, isPrepared = true): Promise<FakeInstance> {
    const instance = new FakeInstance(tree);
    const session = await instance.sessions.current();
    if (isPrepared) await session.prepareHeartbeat();
    instance.transport.log.length = 0;
    return instance;
  }

  /** Calls `acquire()` or `tryAcquire()`. */
  call(options: FakeCallOptions = {}, lockPath = `${ROOT_PATH}/n`): FakeCall {
    return new FakeCall(this, lockPath, options);
  }

  /** Lets time pass in short steps, and all calls go on after each. */
  async pass(durationMs: number): Promise<void> {
    for (let leftMs = durationMs; leftMs > 0; leftMs -= 50) {
      await settle();
      await this.clock.pass(Math.min(leftMs, 50));
    }
    await settle();
  }

  /** Runs the work and returns the requests that it sent. */
  async sent(work: () => unknown): Promise<string[]> {
    const before = this.transport.log.length;
    await work();
    await settle();
    return this.transport.log.slice(before);
  }
}
