/**
 * A znode of ours in the queue of a lock.
 *
 * @module
 * @see {@link https://curator.apache.org/apidocs/org/apache/curator/framework/api/CreateBuilderMain.html#withProtection()}
 */
import type { Clock } from "../../core/clock.ts";
import type { ReleaseAnswer } from "../../core/grant.ts";
import { madeUnder, newGuid, znodePrefix } from "./order.ts";
import type { Session } from "../session/session.ts";
import { hasCode, ZooKeeperError } from "../transport/errors.ts";
import type { WatchEvent } from "../transport/transport.ts";

/** What a znode of ours needs. */
export interface OwnZnodeOptions {
  readonly clock: Clock;
  readonly session: Session;
  /** The path of the lock's znode. */
  readonly parent: string;
  /** What the znode holds: the label, in UTF-8. */
  readonly data: Uint8Array;
  /** Whether it does not wait, and others may know that. */
  readonly isBrief?: boolean;
}

/** One znode from its creation to its deletion. It dies with its session. */
export class OwnZnode {
  readonly session: Session;
  readonly parent: string;
  readonly #options: OwnZnodeOptions;
  /** How the znode is found if its creation goes unanswered. Used for this znode only. */
  readonly #guid: string;
  #path: string | null = null;
  #czxid: bigint | null = null;
  #madeMs: number | null = null;
  #creating: Promise<unknown> = Promise.resolve();
  /** Whether a create may have been executed, now or later, without our knowing the path. */
  #isDoubtful = false;
  #watching: "no" | "yes" | "gone" = "no";
  #onChange: (() => void) | null = null;
  #cancelWatch: (() => void) | null = null;
  #stopListening: (() => void) | null = null;

  /** Asks for nothing yet. */
  constructor(options: OwnZnodeOptions) {
    this.#options = options;
    this.#guid = newGuid(options.isBrief ?? false);
    this.session = options.session;
    this.parent = options.parent;
  }

  /** The name of the znode below its parent; `null` if it is not known to exist. */
  get name(): string | null {
    return this.#path === null ? null : this.#path.slice(this.parent.length + 1);
  }

  /** The zxid of its creation, once it was watched. */
  get czxid(): bigint | null {
    return this.#czxid;
  }

  /** When it was made, by the servers' clock, in ms; known once it was watched. */
  get madeMs(): number | null {
    return this.#madeMs;
  }

  /** Whether a create may have been executed without our knowing it. */
  get isDoubtful(): boolean {
    return this.#isDoubtful;
  }

  /** Whether it is watched: somebody else's change to it will be told. */
  get isWatched(): boolean {
    return this.#watching === "yes";
  }

  /** Whether somebody else deleted it. */
  get isGone(): boolean {
    return this.#watching === "gone";
  }

  /** Sends the create, at once and once. */
  create(): Promise<void> {
    const { session, data } = this.#options;
    const prefix = `${this.parent}/${znodePrefix(this.#guid)}`;
    const creating = session.createSequential(prefix, data).then(
      (path) => void (this.#path = path),
      (error) => {
        this.#isDoubtful = error instanceof ZooKeeperError && error.isAmbiguous;
        throw error;
      },
    );
    this.#creating = creating.catch(() => {});
    return creating;
  }

  /** Looks whether the create that was not answered was executed: then it is known from here on. */
  async settleDoubt(): Promise<void> {
    const [lowest, ...others] = await this.#find(this.session);
    await this.#deleteAll(this.session, others);
    this.#path = lowest ?? null;
    this.#isDoubtful = false;
  }

  /**
   * Watches the znode, unless it is watched, and learns its czxid.
   *
   * @throws {ZooKeeperError} `OWN_ZNODE_GONE` if somebody else deleted it.
   */
  async watch(): Promise<void> {
    if (this.isGone) throw ownZnodeGone();
    if (this.isWatched) return;
    this.#watching = "yes"; // or will be, by the time that anybody can use it
    try {
      const { czxid, madeMs } = await this.session.get(this.#path!, this.#onEvent);
      this.#czxid = czxid;
      this.#madeMs = madeMs;
    } catch (error) {
      const isGone = hasCode(error, "NO_NODE");
      this.#watching = isGone ? "gone" : "no";
      throw isGone ? ownZnodeGone() : error;
    }
  }

  /** Calls back at each change that somebody else makes to the znode, while it is watched. */
  onChange(listener: (() => void) | null): void {
    this.#onChange = listener;
  }

  /** The lock is ours: calls back, now or later, if somebody else deletes the znode. */
  hold(onGone: () => void): void {
    this.#onChange = () => this.isGone ? onGone() : void this.keepWatch();
    // A watch goes with the connection that it was set on.
    this.#stopListening = this.session.onChange(() => void this.keepWatch());
    if (this.isWatched) return;
    const { clock, session } = this.#options;
    // Most locks are not held for so long: they are spared the request.
    this.#cancelWatch = clock.schedule(() => this.keepWatch(), session.timeoutMs / 10);
  }

  /** Watches the znode of a lock that is held, unless it is watched. Never rejects. */
  async keepWatch(): Promise<void> {
    if (this.#onChange === null || this.isWatched) return;
    await this.watch().catch(() => {}); // It is tried again with the next heartbeat.
    if (this.isGone) this.#onChange?.();
  }

  /**
   * Deletes the znode; one attempt.
   *
   * @param nextSession The session to do it by if our own is over.
   * @returns What became of it.
   */
  async leave(nextSession: () => Promise<Session>): Promise<ReleaseAnswer> {
    this.forget();
    await this.#creating;
    if (this.#path === null && !this.isDoubtful) return { state: "released" };
    if (this.session.isForgotten) return { state: "gone", reason: "session-expired" };
    try {
      const session = this.session.isOver ? await nextSession() : this.session;
      if (this.#path !== null) await session.delete(this.#path);
      else await this.#deleteAll(session, await this.#find(session));
      return { state: "released" };
    } catch (cause) {
      if (!hasCode(cause, "NO_NODE")) return { state: "unknown", cause };
      return { state: "gone", reason: this.session.isOver ? "session-expired" : "stolen" };
    }
  }

  /** Leaves no timer, and no watch that does anything. */
  forget(): void {
    this.#cancelWatch?.();
    this.#stopListening?.();
    this.#onChange = null;
    if (this.#path !== null) this.session.unwatch(this.#path, this.#onEvent);
  }

  readonly #onEvent = (event: WatchEvent): void => {
    // A watch is used up by its event.
    this.#watching = event === "deleted" ? "gone" : "no";
    this.#onChange?.();
  };

  /** The znodes that were made under our GUID. */
  async #find(session: Session): Promise<string[]> {
    // A server may lag behind the others: after a write it has seen all that came before. And what
    // was sent on an earlier connection of the session cannot be executed any more.
    if (session === this.session) await session.prove();
    try {
      const { names } = await session.children(this.parent);
      return madeUnder(names, this.#guid).map(({ name }) => `${this.parent}/${name}`);
    } catch (error) {
      if (hasCode(error, "NO_NODE")) return [];
      throw error;
    }
  }

  async #deleteAll(session: Session, paths: readonly string[]): Promise<void> {
    for (const path of paths) {
      await session.delete(path).catch((error) => {
        if (!hasCode(error, "NO_NODE")) throw error;
      });
    }
  }
}

/** Our own znode is missing: whatever it stood for, we do not have it. */
export function ownZnodeGone(): ZooKeeperError {
  return new ZooKeeperError("OWN_ZNODE_GONE", "Our znode is not there");
}
