/**
 * One ZooKeeper session: whether it can be proven, and its end.
 *
 * @module
 */
import { type Clock, type Instant, instant, wasSuspended } from "../../core/clock.ts";
import type {
  Children,
  TransportState,
  Watcher,
  Znode,
  ZooKeeperTransport,
} from "../transport/transport.ts";
import { hasCode, ZooKeeperError } from "../transport/errors.ts";

/** How often a znode is tried whose parents vanish. */
const PATH_ATTEMPTS = 10;

/** What a session needs. */
export interface SessionContext {
  readonly clock: Clock;
  /** The path that all locks are below. */
  readonly rootPath: string;
  /** A znode of this session's own, below the root path. */
  readonly beatPath: string;
  /** The session was proven by a write that went out at `sent`, for `validMs` from then. */
  onProof(sent: Instant, validMs: number): void;
  /** The session can be believed no longer. */
  onOver(): void;
}

/**
 * A session as long as it can be believed. Only an answered *write* proves it: a server that is cut off
 * from its leader goes on answering reads and pings while the leader lets the session expire. From the
 * moment such a write was sent it is believed for ¾ of the timeout. The last quarter is for the way to
 * the leader: a follower tells it twice per tick which sessions it has heard of, and a timeout is at
 * least two ticks.
 */
export class Session {
  /** The session timeout in ms that the server granted. */
  readonly timeoutMs: number;
  readonly #transport: ZooKeeperTransport;
  readonly #context: SessionContext;
  readonly #listeners = new Set<() => void>();
  /** When the last answered write went out. */
  #proof: Instant = { nowMs: -Infinity, wallMs: -Infinity };
  #answeredMs: number;
  /** The heartbeat under way. */
  #beat: { readonly sent: Instant; readonly answered: Promise<void> } | null = null;
  #over: { readonly sinceMs: number; readonly isExpired: boolean } | null = null;
  #cancelSuspension: (() => void) | null = null;

  /** Takes over a transport that has just connected. */
  constructor(transport: ZooKeeperTransport, context: SessionContext) {
    this.#transport = transport;
    this.#context = context;
    this.timeoutMs = transport.timeoutMs;
    this.#answeredMs = context.clock.now();
  }

  /** How long in ms an answered write proves the session. */
  get validMs(): number {
    return this.timeoutMs * 3 / 4;
  }

  /** When the write went out that proves the session. */
  get proof(): Instant {
    return this.#proof;
  }

  /** Whether the proof is good enough to grant a lease on it. */
  get isFresh(): boolean {
    const { clock } = this.#context;
    return this.#over === null && clock.now() - this.#proof.nowMs < this.validMs / 2 &&
      !wasSuspended(clock, this.#proof, this.timeoutMs);
  }

  /** Whether the session is not believed any more. The server may still keep it for a while. */
  get isOver(): boolean {
    return this.#over !== null;
  }

  /** Whether the server has dropped the session and its ephemeral znodes, as far as we can know. */
  get isForgotten(): boolean {
    if (this.#over === null) return false;
    const { sinceMs, isExpired } = this.#over;
    return isExpired || this.#context.clock.now() - sinceMs > 2 * this.timeoutMs;
  }

  /** Counts connections. */
  get epoch(): number {
    return this.#transport.epoch;
  }

  /** Calls back at each change of state, until the returned function is called. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Creates a znode in a queue; resolves with its path. */
  createSequential(pathPrefix: string, data: Uint8Array): Promise<string> {
    return this.#write((transport) => transport.createSequential(pathPrefix, data));
  }

  /** Deletes a znode. */
  delete(path: string): Promise<void> {
    return this.#write((transport) => transport.delete(path));
  }

  /** Makes a path of persistent znodes, as far as it is missing: a vain create is a write as well. */
  async makePath(path: string): Promise<void> {
    try {
      await this.#create(path, (transport) => transport.createPersistent(path));
    } catch (error) {
      if (!hasCode(error, "NODE_EXISTS")) throw error;
    }
  }

  /** Lists children. */
  children(path: string): Promise<Children> {
    return this.#ask((transport) => transport.children(path));
  }

  /** Reads a znode and leaves a watcher on it. */
  get(path: string, watcher?: Watcher): Promise<Znode> {
    return this.#ask((transport) => transport.get(path, watcher));
  }

  /** Takes a watcher back. */
  unwatch(path: string, watcher: Watcher): void {
    this.#transport.unwatch(path, watcher);
  }

  /** Looks whether the server answers, unless it has done so lately. */
  async ping(): Promise<void> {
    if (this.#context.clock.now() - this.#answeredMs < this.pingEveryMs) return;
    try {
      await this.#ask((transport) => transport.get(this.#context.rootPath));
    } catch (error) {
      if (!(error instanceof ZooKeeperError) || !error.isAnswer) throw error;
    }
  }

  /** How often in ms who waits should look whether the server answers. */
  get pingEveryMs(): number {
    return this.timeoutMs / 3;
  }

  /** Proves the session by a write. At most one is under way. */
  prove(): Promise<void> {
    const { clock } = this.#context;
    // What was sent before the process was suspended proves nothing about the time since.
    if (this.#beat !== null && !wasSuspended(clock, this.#beat.sent, this.timeoutMs)) {
      return this.#beat.answered;
    }
    const sent = instant(clock);
    const answered = this.#writeBeat().finally(() => {
      if (this.#beat === beat) this.#beat = null;
    });
    const beat = this.#beat = { sent, answered };
    return answered;
  }

  /** The session's time is up by our own clock, whatever the client believes. */
  lapse(): void {
    this.#end(false);
  }

  /** Ends the session at the server, within `timeoutMs`. */
  async close(timeoutMs: number): Promise<void> {
    if (this.#over !== null) return;
    this.#markOver(false);
    await this.#transport.close(timeoutMs);
  }

  /** Takes note of what the transport tells. */
  onState(state: TransportState): void {
    if (this.#over !== null) return;
    this.#cancelSuspension?.();
    this.#cancelSuspension = null;
    if (state === "suspended") {
      const { clock } = this.#context;
      this.#cancelSuspension = clock.schedule(() => this.lapse(), this.timeoutMs);
    } else if (state !== "connected") this.#end(state === "expired");
    // Another server with other limits: nothing that was reckoned with the old timeout holds.
    else if (this.#transport.timeoutMs !== this.timeoutMs) this.lapse();
    this.#tell();
  }

  #end(isExpired: boolean): void {
    if (this.#over !== null) return;
    this.#markOver(isExpired);
    // Never to come back: the server may have given our locks to others.
    this.#transport.destroy();
    this.#context.onOver();
    this.#tell();
  }

  #markOver(isExpired: boolean): void {
    this.#cancelSuspension?.();
    this.#cancelSuspension = null;
    this.#over = { sinceMs: this.#context.clock.now(), isExpired };
  }

  #tell(): void {
    for (const listener of [...this.#listeners]) listener();
  }

  /** The znode is made by the first heartbeat: a session that holds no lock for long has none. */
  async #writeBeat(): Promise<void> {
    const { beatPath } = this.#context;
    try {
      await this.#write((transport) => transport.set(beatPath));
    } catch (error) {
      if (!hasCode(error, "NO_NODE")) throw error;
      await this.#create(beatPath, (transport) => transport.createEphemeral(beatPath));
    }
  }

  /** Creates a znode, and its parents if they are missing. */
  async #create(path: string, send: (transport: ZooKeeperTransport) => Promise<void>) {
    for (let attempt = 1;; attempt++) {
      try {
        return await this.#write(send);
      } catch (error) {
        // Others may delete empty parents as fast as they are made: Curator's reaper, an administrator.
        if (!hasCode(error, "NO_NODE") || attempt > PATH_ATTEMPTS) throw error;
        await this.makePath(path.slice(0, path.lastIndexOf("/")) || "/");
      }
    }
  }

  async #write<T>(send: (transport: ZooKeeperTransport) => Promise<T>): Promise<T> {
    const sent = instant(this.#context.clock);
    const answer = await this.#ask(send);
    if (this.#over !== null) return answer;
    if (sent.nowMs > this.#proof.nowMs) this.#proof = sent;
    this.#context.onProof(sent, this.validMs);
    return answer;
  }

  async #ask<T>(send: (transport: ZooKeeperTransport) => Promise<T>): Promise<T> {
    const note = () => this.#answeredMs = this.#context.clock.now();
    try {
      const answer = await send(this.#transport);
      note();
      return answer;
    } catch (error) {
      if (error instanceof ZooKeeperError && error.isAnswer) note();
      throw error;
    }
  }
}
