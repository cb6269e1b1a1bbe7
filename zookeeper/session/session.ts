/**
 * One ZooKeeper session: its requests, the proof that it is alive, and its connection, from the first one to its end.
 * The next session is opened in `sessions.ts`.
 *
 * Only an answered *write* proves the session: a server that is cut off from its leader still answers reads and pings
 * while the leader lets the session expire. But the leader does not count from the write. It learns from reports,
 * which a follower sends twice per tick, which sessions were active. A timeout T must be at least two ticks (four for
 * observers that report to a follower): then what had reached the follower T/4 before the write was in a report
 * before it. The session, and with it all leases, is valid for T from when the last _sign of life_ was sent that was
 * answered by then: a request, a ping, or the request for the session itself, which the leader answers. When no other
 * write does, a heartbeat proves the session, each T/6: then it is valid for ⅔ T from the last of them.
 *
 * The session is over for good when a lease ends because no write was answered, when the server says that it has
 * expired or grants another timeout, when it had no connection, or nothing has arrived on it, for the whole timeout,
 * or when it is closed. Then the transport is destroyed and, unless it was closed, all leases are lost. See
 * `docs/zookeeper-protocol.md`.
 *
 * @module
 */
import { type Clock, type Instant, instant, wasSuspended } from "../../core/time/clock.ts";
import type { LeaseEngine } from "../../core/lease/lease_engine.ts";
import type { OutageBudget } from "../../core/time/outage_budget.ts";
import { classifyFailure, hasCode, ZooKeeperError } from "../connection/failures.ts";
import type {
  TransportListener,
  TransportState,
  ZooKeeperTransport,
} from "../connection/transport.ts";
import type { Watcher, Watches } from "../connection/watches.ts";
import {
  type Children,
  childrenRequest,
  createRequest,
  deleteRequest,
  getRequest,
  setRequest,
  type Znode,
} from "../connection/wire.ts";
import { sessionZnodeName } from "../connection/znode_names.ts";
import { SharedReads } from "./shared_reads.ts";

/** How often a create is sent while others, such as Curator's reaper, delete its parents. */
const MAX_CREATE_ATTEMPTS = 10;

const NEVER: Instant = { nowMs: -Infinity, wallMs: -Infinity };

/**
 * Refusals of a write that prove the session as well as an accepted write: the leader checks the session
 * before anything else, and a write that it refuses goes through the quorum, too. The other refusals may be
 * those of a server that has not asked the leader.
 */
const PROVING: ReadonlySet<ZooKeeperError["code"]> = new Set([
  "NO_NODE",
  "NODE_EXISTS",
  "NOT_EMPTY",
  "NO_AUTH",
]);

/** The leases of an instance: they are extended and lost together with its session. */
export type SessionLeases = Pick<LeaseEngine, "clock" | "extendAll" | "loseAll">;

/** Is notified of changes, and looks itself what is different now. */
export interface ChangeListener {
  /** For a session: its connection was lost or made again, or it is over. Must not throw. */
  onChange(): void;
}

/** Requests are sent in the order of the calls; one that fails rejects with a `ZooKeeperError`. */
export class Session implements TransportListener {
  readonly timeoutMs: number;
  /** How often the heartbeat is sent while leases are held. */
  readonly heartbeatEveryMs: number;
  /**
   * How long in ms after the last sign of life the server is asked for one while there are listeners. So these
   * requests stand in for the client package's pings: it sends one when nothing was sent or received for T/3.
   */
  readonly checkEveryMs: number;
  /** When the server last executed a request, or refused it for good; in monotonic ms. */
  lastAnswerMs: number;
  /** When the last answered write was sent, and how long in ms the session is valid from then. Only the session writes it. */
  proof: { readonly sent: Instant; readonly validMs: number } = { sent: NEVER, validMs: 0 };
  /** The znode that the heartbeat writes to. It belongs to this session alone. */
  readonly heartbeatPath: string;
  /** Where watchers are removed: see {@linkcode Session.get}. */
  readonly watches: Watches;
  readonly #transport: ZooKeeperTransport;
  readonly #requests: ZooKeeperTransport["requests"];
  readonly #leases: SessionLeases;
  readonly #clock: Clock;
  readonly #rootPath: string;
  readonly #isOpen: boolean;
  readonly #listeners = new Set<ChangeListener>();
  readonly #listings = new SharedReads<Children>();
  readonly #sizes = new SharedReads<Znode>();
  /** The proof that last extended the leases. */
  #leasesProof = this.proof;
  /**
   * Messages of ours that the server has answered: each had arrived by `answeredMs`, in monotonic ms. Only those that
   * may count, the oldest one first: of many, one in T/20.
   */
  #signs: { readonly sent: Instant; readonly answeredMs: number }[] = [];
  #heartbeat: { readonly sent: Instant; readonly answered: Promise<void> } | null = null;
  #preparing: Promise<void> | null = null;
  #isPrepared = false;
  #isChecking = false;
  #cancelCheck: (() => void) | null = null;
  /** Settles with the next connection, or the end of the session; `null` if nobody waits for it. */
  #reconnection: PromiseWithResolvers<void> | null = null;
  /** Cancels the timer that ends the session: it has no connection, or no sign of the server. */
  #cancelLimit: (() => void) | null = null;
  /** Whether the session is over for us, and what the server has said about that. */
  #end: "unknown" | "expired" | null = null;

  /** @param isOpen Whether everybody has access to new znodes. */
  constructor(
    transport: ZooKeeperTransport,
    leases: SessionLeases,
    rootPath: string,
    isOpen: boolean,
  ) {
    const { timeoutMs } = transport;
    this.heartbeatPath = `${rootPath}/${sessionZnodeName(crypto.randomUUID())}`;
    this.watches = transport.watches;
    this.#transport = transport;
    this.#requests = transport.requests;
    this.#leases = leases;
    this.#clock = leases.clock;
    this.#rootPath = rootPath;
    this.#isOpen = isOpen;
    this.timeoutMs = timeoutMs;
    this.heartbeatEveryMs = timeoutMs / 6;
    this.checkEveryMs = timeoutMs * 0.3;
    this.lastAnswerMs = this.#clock.now();
    this.#beginSigns();
    transport.setListener(this);
    this.#limitSilence();
  }

  /** The server may still keep it for a while. */
  get isOver(): boolean {
    return this.#end !== null;
  }

  /** Whether a server has accepted the session, on a connection that is not known to be lost. */
  get isConnected(): boolean {
    return this.#end === null && this.#transport.state === "connected";
  }

  get epoch(): number {
    return this.#transport.epoch;
  }

  // Requests. An answered write proves the session.

  /** Creates an ephemeral znode whose name gets a sequence number; resolves with its path. */
  createSequential(pathPrefix: string, data: Uint8Array): Promise<string> {
    const request = createRequest(pathPrefix, data, "sequential", this.#isOpen);
    return this.#answered(instant(this.#clock), this.#requests.send(request), true);
  }

  delete(path: string): Promise<void> {
    const request = deleteRequest(path);
    return this.#answered(instant(this.#clock), this.#requests.send(request), true);
  }

  /** Creates a znode and its parents, where they are missing. The heartbeat's is ephemeral. */
  async makePath(path: string, isEphemeral = false): Promise<void> {
    for (let attempt = 1;; attempt++) {
      const mode = isEphemeral ? "ephemeral" : "persistent";
      const request = createRequest(path, null, mode, this.#isOpen);
      try {
        await this.#answered(
          instant(this.#clock),
          this.#requests.send(request, isEphemeral),
          true,
        );
        return;
      } catch (error) {
        if (hasCode(error, "NODE_EXISTS")) return;
        if (!hasCode(error, "NO_NODE") || attempt >= MAX_CREATE_ATTEMPTS) throw error;
        await this.makePath(path.slice(0, path.lastIndexOf("/")) || "/");
      }
    }
  }

  /**
   * Reads a znode. If it exists, the watcher is set on it; setting it again has no effect. Where another
   * watcher is set already, nothing is sent: the znode has not changed since. (Only its children may have.)
   */
  async get(path: string, watcher?: Watcher): Promise<Znode> {
    if (watcher === undefined) {
      return await this.#answered(instant(this.#clock), this.#requests.send(getRequest(path)));
    }
    // Added before the request is sent: an event may arrive directly after the answer.
    const known = this.watches.add(path, watcher);
    if (known !== null) return known;
    try {
      const confirm = (znode: Znode) => this.watches.confirm(path, znode);
      return await this.#answered(
        instant(this.#clock),
        this.#requests.send(getRequest(path, confirm)),
      );
    } catch (error) {
      this.watches.fail(path, watcher);
      throw error;
    }
  }

  /**
   * Lists the children of a znode, by a request that is sent after this call. Calls share the listing: after a
   * reconnect many may search a long queue for their znodes.
   */
  children(path: string): Promise<Children> {
    return this.#listings.join(path, () => this.children(path)) ??
      this.#listings.add(
        path,
        this.#answered(instant(this.#clock), this.#requests.send(childrenRequest(path))),
      );
  }

  /** Reads a znode for its number of children, after this call. Calls share the read. */
  size(path: string): Promise<Znode> {
    return this.#sizes.join(path, () => this.size(path)) ?? this.#sizes.add(path, this.get(path));
  }

  /**
   * Sends a request again and again until it is answered, as `budget.ask()` does. But while there is no
   * connection, it waits for one: thousands of waiters that try every 50 ms would keep the process busy.
   */
  ask<T>(budget: OutageBudget, request: () => Promise<T>): Promise<T> {
    return budget.ask(() => {
      const isFirst = budget.outageSinceMs === null;
      return isFirst || this.isConnected ? request() : this.reconnected().then(request);
    });
  }

  /** Awaits an answer, or a refusal, which is one, too. `sent` is when the request was sent, or just before. */
  async #answered<T>(sent: Instant, request: Promise<T>, isWrite = false): Promise<T> {
    try {
      const answer = await request;
      this.lastAnswerMs = this.#clock.now();
      this.#onAnswer(sent, this.lastAnswerMs, isWrite);
      return answer;
    } catch (error) {
      const nowMs = this.#clock.now();
      if (classifyFailure(error).endsOutage) this.lastAnswerMs = nowMs;
      if (isProof(error)) this.#onAnswer(sent, nowMs, isWrite);
      throw error;
    }
  }

  // The proof that the session is alive.

  /** Whether the session is proven for long enough to grant a lease: until a heartbeat is sent and answered. */
  get isProvenRecently(): boolean {
    const { sent, validMs } = this.proof;
    return this.#end === null && sent.nowMs + validMs - this.#clock.now() > this.timeoutMs / 4 &&
      !wasSuspended(this.#clock, sent, validMs);
  }

  /**
   * Whether the servers have surely dropped the session and its ephemeral znodes. Time does not tell: an ensemble
   * without a leader lets no session expire, and a new leader gives each one its whole timeout again.
   */
  get isDroppedByServer(): boolean {
    return this.#end === "expired";
  }

  onPing(sent: Instant): void {
    this.#onAnswer(sent, this.#clock.now(), false);
  }

  /** The leader itself has accepted the session, and counts from then. */
  #beginSigns(): void {
    this.#signs = [{ sent: this.#transport.requestedAt, answeredMs: -Infinity }];
  }

  /** A message is a sign of life; a write also proves the session, by earlier signs. */
  #onAnswer(sent: Instant, answeredMs: number, isWrite: boolean): void {
    if (isWrite && this.#end === null && sent.nowMs > this.proof.sent.nowMs) this.#prove(sent);
    const signs = this.#signs;
    // One that had to wait for its turn was sent long before: it must not take the place of a newer one.
    if (sent.nowMs - signs.at(-1)!.sent.nowMs < this.timeoutMs / 20) return;
    signs.push({ sent, answeredMs });
    // A write that is answered after the whole timeout proves nothing, so no sign from long before it counts.
    while (signs[1]!.answeredMs < answeredMs - 1.5 * this.timeoutMs) signs.shift();
  }

  /**
   * Extends the session and, if that gains more than a twentieth of the timeout or shows that they outlived
   * a suspension of the process, all leases: to extend many of them at every write would take too long.
   */
  #prove(sent: Instant): void {
    const { timeoutMs } = this;
    let i = this.#signs.length - 1;
    while (i >= 0 && this.#signs[i]!.answeredMs > sent.nowMs - timeoutMs / 4) i--;
    const counted = this.#signs[i]?.sent;
    if (counted === undefined) return; // the answer came too late
    // One of the clocks stands still in a suspension; the other one was set if it says that the session has
    // outlived twice its timeout. The leader's clock may be faster by 1 %.
    const agoMs = sent.nowMs - counted.nowMs;
    const wallAgoMs = sent.wallMs - counted.wallMs;
    const countedMs = wallAgoMs > 2 * timeoutMs ? agoMs : Math.max(agoMs, wallAgoMs);
    const validMs = timeoutMs - countedMs * 1.01;
    const last = this.#leasesProof;
    this.proof = { sent, validMs };
    const stepMs = timeoutMs / 20;
    const gainMs = sent.nowMs + validMs - last.sent.nowMs - last.validMs;
    if (gainMs <= stepMs && sent.wallMs - last.sent.wallMs <= stepMs) return;
    this.#leasesProof = this.proof;
    this.#leases.extendAll(sent, validMs);
  }

  /**
   * Creates the heartbeat's znode, together with the first acquire, so that a missing right rejects that, before a
   * lease depends on the heartbeat. Returns `null` if the znode was created before.
   */
  prepareHeartbeat(): Promise<void> | null {
    if (this.#isPrepared) return null;
    if (this.#preparing !== null) return this.#preparing;
    this.#preparing = this.makePath(this.heartbeatPath, true)
      .then(() => void (this.#isPrepared = true))
      .finally(() => this.#preparing = null);
    // A call that ends meanwhile does not await it, and an unhandled rejection would end the process.
    this.#preparing.catch(() => {});
    return this.#preparing;
  }

  /**
   * Proves the session by a write, unless one is under way. A refusal is a proof, too, and not a failure: if rights
   * change later, leases last as long as the session does.
   */
  sendHeartbeat(): Promise<void> {
    const pending = this.#heartbeat;
    // A heartbeat that was sent before the process was suspended does not prove the session after that.
    if (pending !== null && !wasSuspended(this.#clock, pending.sent, this.timeoutMs)) {
      return pending.answered;
    }
    const sent = instant(this.#clock);
    const answered = this.#writeHeartbeat().finally(() => {
      if (this.#heartbeat === heartbeat) this.#heartbeat = null;
    });
    const heartbeat = this.#heartbeat = { sent, answered };
    return answered;
  }

  async #writeHeartbeat(): Promise<void> {
    try {
      await this.#answered(
        instant(this.#clock),
        this.#requests.send(setRequest(this.heartbeatPath), true),
        true,
      );
    } catch (error) {
      if (!isProof(error)) throw error;
      // That has proven the session, whatever becomes of the create.
      if (hasCode(error, "NO_NODE")) await this.makePath(this.heartbeatPath, true).catch(() => {});
    }
  }

  // The connection: its listeners, its loss, and whether the server is alive.

  /**
   * Notifies a listener from now on. While there are listeners, the session asks the server for signs of life: the
   * client package does not notice a dead connection, and sends no ping while only events arrive.
   */
  listen(listener: ChangeListener): void {
    this.#listeners.add(listener);
    if (this.#cancelCheck === null) this.#scheduleCheck();
  }

  unlisten(listener: ChangeListener): void {
    this.#listeners.delete(listener);
  }

  #notify(): void {
    for (const listener of this.#listeners) listener.onChange();
  }

  /** Resolves when there is a connection; rejects at the end of the session. */
  reconnected(): Promise<void> {
    if (this.isConnected) return Promise.resolve();
    if (this.isOver) return Promise.reject(sessionOver());
    this.#reconnection ??= Promise.withResolvers<void>();
    return this.#reconnection.promise;
  }

  onStateChange(state: TransportState): void {
    if (this.#end !== null) return;
    if (state === "suspended") this.#setLimit(() => this.lose(), this.timeoutMs);
    else if (state !== "connected") this.lose(state === "expired");
    // This server has other limits, and every deadline was computed with the old timeout.
    else if (this.#transport.timeoutMs !== this.timeoutMs) this.lose();
    else {
      this.#beginSigns();
      this.#limitSilence();
      this.#reconnection?.resolve();
      this.#reconnection = null;
    }
    this.#notify();
  }

  /** In ms, 0 or less if it is due. Events are no sign of life: watches that nobody needs any more fire, too. */
  #untilCheckMs(): number {
    return this.#signs.at(-1)!.sent.nowMs + this.checkEveryMs - this.#clock.now();
  }

  #scheduleCheck(): void {
    if (this.#end !== null) return;
    const untilMs = this.#untilCheckMs();
    const cancel = this.#clock.schedule(() => {
      this.#cancelCheck = null;
      if (this.#listeners.size === 0) return;
      this.#checkServer();
      this.#scheduleCheck();
    }, untilMs > 0 ? untilMs : this.checkEveryMs);
    cancel.unref?.();
    this.#cancelCheck = cancel;
  }

  #checkServer(): void {
    if (this.#isChecking || this.#untilCheckMs() > 0) return;
    this.#isChecking = true;
    // Without an answer the transport drops the connection, which the listeners notice.
    this.get(this.#rootPath).catch(() => {}).finally(() => this.#isChecking = false);
  }

  /** Ends the session when nothing has arrived for its timeout: answers to pings arrive three times in that time. */
  #limitSilence(): void {
    const check = () => {
      if (this.#transport.silentMs >= this.timeoutMs) this.lose();
      else this.#limitSilence();
    };
    // One more turn of the event loop: if that was blocked, the socket may hold an answer.
    const onTimer = () => this.#setLimit(check, 0);
    this.#setLimit(onTimer, this.timeoutMs - this.#transport.silentMs);
  }

  #setLimit(onTimer: () => void, delayMs: number): void {
    this.#cancelLimit?.();
    const cancel = this.#clock.schedule(onTimer, delayMs);
    cancel.unref?.();
    this.#cancelLimit = cancel;
  }

  // The end.

  /** Closes the session at the server. Its leases must have ended. */
  async close(timeoutMs: number): Promise<void> {
    if (this.#end !== null) return;
    this.#finish(false);
    await this.#transport.close(timeoutMs);
  }

  /** Ends the session and all leases at once, without a request. `isExpired`: the server says it is over. */
  lose(
    isExpired = false,
    cause: unknown = isExpired ? undefined : this.#transport.connectError,
  ): void {
    if (this.#end !== null) return;
    this.#finish(isExpired);
    // The client must never reconnect: other clients may have our locks by now.
    this.#transport.destroy();
    this.#leases.loseAll("session-expired", cause);
    this.#notify();
  }

  #finish(isExpired: boolean): void {
    this.#cancelLimit?.();
    this.#cancelCheck?.();
    this.#end = isExpired ? "expired" : "unknown";
    this.#reconnection?.reject(sessionOver());
  }
}

function isProof(error: unknown): boolean {
  return error instanceof ZooKeeperError && PROVING.has(error.code);
}

function sessionOver(): ZooKeeperError {
  return new ZooKeeperError("SESSION_OVER", "The session is over");
}
