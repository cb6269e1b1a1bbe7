/**
 * The requests of one session. Answered writes extend its validity, and missing parents are created.
 * When the requests are repeated is decided by the callers.
 *
 * @module
 */
import { type Clock, instant } from "../../core/time/clock.ts";
import { hasCode, ZooKeeperError, type ZooKeeperErrorCode } from "../connection/failures.ts";
import type { Children, Watcher, Znode, ZooKeeperTransport } from "../connection/transport.ts";
import { SharedRead } from "./shared_read.ts";
import type { SessionValidity } from "./session_validity.ts";

/** How often a create is sent while other clients keep deleting the parents. */
const MAX_CREATE_ATTEMPTS = 10;

/**
 * Refusals of a write that prove the session as well as an accepted write: the leader checks the session
 * before anything else, and a write that it refuses goes through the quorum, too. The other refusals may be
 * those of a server that has not asked the leader.
 */
const PROVING: ReadonlySet<ZooKeeperErrorCode> = new Set([
  "NO_NODE",
  "NODE_EXISTS",
  "NOT_EMPTY",
  "NO_AUTH",
]);

/** Sends requests, in the order of the calls. A request that fails rejects with a `ZooKeeperError`. */
export class SessionRequests {
  readonly #clock: Clock;
  readonly #transport: ZooKeeperTransport;
  readonly #validity: SessionValidity;
  /** The listings that are under way, by path. */
  readonly #listings = new Map<string, SharedRead<Children>>();
  #lastAnswerMs: number;

  /** Takes a transport that is connected. */
  constructor(clock: Clock, transport: ZooKeeperTransport, validity: SessionValidity) {
    this.#clock = clock;
    this.#transport = transport;
    this.#validity = validity;
    this.#lastAnswerMs = clock.now();
  }

  /** The number of connections so far. A different epoch means a different connection. */
  get epoch(): number {
    return this.#transport.epoch;
  }

  /** When the server last answered, in monotonic ms. */
  get lastAnswerMs(): number {
    return this.#lastAnswerMs;
  }

  /** Creates an ephemeral znode whose name gets a sequence number; resolves with its path. */
  createSequential(pathPrefix: string, data: Uint8Array): Promise<string> {
    return this.#write(() => this.#transport.createSequential(pathPrefix, data));
  }

  /** Creates an ephemeral znode, and its parents if they are missing. */
  createEphemeral(path: string): Promise<void> {
    return this.#createWithParents(path, () => this.#transport.createEphemeral(path));
  }

  /** Creates all missing persistent znodes of a path. */
  async makePath(path: string): Promise<void> {
    try {
      await this.#createWithParents(path, () => this.#transport.createPersistent(path));
    } catch (error) {
      if (!hasCode(error, "NODE_EXISTS")) throw error;
    }
  }

  /** Writes empty data. */
  set(path: string): Promise<void> {
    return this.#write(() => this.#transport.set(path));
  }

  /** Deletes a znode that has no children. */
  delete(path: string): Promise<void> {
    return this.#write(() => this.#transport.delete(path));
  }

  /**
   * Lists the children of a znode, after this call. Calls share the listing: after a lost connection many
   * of them may search a long queue for their znodes.
   */
  async children(path: string): Promise<Children> {
    const listing = this.#listings.get(path) ??
      new SharedRead(() => this.#transport.children(path));
    this.#listings.set(path, listing);
    try {
      return await this.#recordAnswer(listing.send());
    } finally {
      if (listing.isIdle) this.#listings.delete(path);
    }
  }

  /** Reads a znode. If it exists, the watcher is set on it. */
  get(path: string, watcher?: Watcher): Promise<Znode> {
    return this.#recordAnswer(this.#transport.get(path, watcher));
  }

  /** Removes a watcher, so that it is not called any more. Sends nothing. */
  unwatch(path: string, watcher: Watcher): void {
    this.#transport.unwatch(path, watcher);
  }

  /**
   * Creates a znode, and its parents if they are missing. Another client, such as Curator's reaper or an
   * administrator, may delete a parent as long as it is empty. Then the parents are created again.
   */
  async #createWithParents(path: string, create: () => Promise<void>): Promise<void> {
    for (let attempt = 1;; attempt++) {
      try {
        return await this.#write(create);
      } catch (error) {
        if (!hasCode(error, "NO_NODE") || attempt >= MAX_CREATE_ATTEMPTS) throw error;
        await this.makePath(path.slice(0, path.lastIndexOf("/")) || "/");
      }
    }
  }

  async #write<T>(send: () => Promise<T>): Promise<T> {
    const sent = instant(this.#clock);
    try {
      const answer = await this.#recordAnswer(send());
      this.#validity.extend(sent);
      return answer;
    } catch (error) {
      if (isProof(error)) this.#validity.extend(sent);
      throw error;
    }
  }

  /** Records when the server answered. A refusal is an answer, too. */
  async #recordAnswer<T>(request: Promise<T>): Promise<T> {
    try {
      const answer = await request;
      this.#lastAnswerMs = this.#clock.now();
      return answer;
    } catch (error) {
      if (error instanceof ZooKeeperError && error.isAnswer) this.#lastAnswerMs = this.#clock.now();
      throw error;
    }
  }
}

/** Whether the failure of a write proves that the session was alive when the write was sent. */
export function isProof(error: unknown): boolean {
  return error instanceof ZooKeeperError && PROVING.has(error.code);
}
