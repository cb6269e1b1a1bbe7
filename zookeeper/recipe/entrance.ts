/**
 * How our znode enters the queue of a lock, and how the queue is read. Our znode itself is in
 * `own_znode.ts`.
 *
 * @module
 */
import { abortable, type Clock } from "../../core/time/clock.ts";
import type { OutageBudget } from "../../core/time/outage_budget.ts";
import { askIn } from "../session/ask.ts";
import { hasCode } from "../connection/failures.ts";
import { ownZnodeGone } from "./own_watch.ts";
import type { OwnZnode } from "./own_znode.ts";

/** The options of {@linkcode Entrance}. */
export interface EntranceOptions {
  readonly clock: Clock;
  /** Our own znode. It must not have been created yet. */
  readonly znode: OwnZnode;
  /** Repeats requests during an outage; its signal ends the wait. */
  readonly budget: OutageBudget;
}

/** The entrance of one znode of ours. */
export class Entrance {
  readonly #clock: Clock;
  readonly #znode: OwnZnode;
  readonly #budget: OutageBudget;

  /** Sends nothing yet. */
  constructor({ clock, znode, budget }: EntranceOptions) {
    this.#clock = clock;
    this.#znode = znode;
    this.#budget = budget;
  }

  /**
   * Creates our znode, and reads something about the queue. Sends both together: ZooKeeper executes the
   * requests of a session in order, so after one round trip the answer takes account of our znode and of
   * all znodes before it.
   */
  async createAndRead<T>(read: () => Promise<T>): Promise<T> {
    const znode = this.#znode;
    for (;;) {
      const sentMs = this.#clock.now();
      const creating = znode.create();
      const reading = read();
      reading.catch(() => {}); // If the create fails, only its error counts.
      try {
        await abortable(creating, this.#budget.signal);
        return await this.read(read, reading);
      } catch (error) {
        if (znode.name !== null) throw error;
        await this.#recoverCreate(error, sentMs);
      }
      if (znode.name !== null) return await this.read(read);
    }
  }

  /**
   * Reads something about the queue. Rejects with `OWN_ZNODE_GONE` if the lock's znode is missing.
   *
   * @param read Sends the request.
   * @param sent The first attempt, if it was sent already.
   */
  async read<T>(read: () => Promise<T>, sent?: Promise<T>): Promise<T> {
    let first = sent;
    try {
      return await this.#ask(() => {
        const reading = first ?? read();
        first = undefined;
        return reading;
      });
    } catch (error) {
      throw hasCode(error, "NO_NODE") ? ownZnodeGone() : error;
    }
  }

  /**
   * Recovers from a failed create: creates the lock's znode if that was missing, or searches for our
   * znode if the create may have been executed. Unless our znode is found, the caller sends the create
   * again. Throws the error of the create if neither applies.
   */
  async #recoverCreate(error: unknown, sentMs: number): Promise<void> {
    const znode = this.#znode;
    const { session } = znode;
    if (hasCode(error, "NO_NODE")) {
      await this.#ask(() => session.requests.makePath(znode.lockPath));
      return;
    }
    this.#budget.beganAt(Math.max(sentMs, session.requests.lastAnswerMs));
    if (znode.isCreateAmbiguous && !session.isOver) {
      await this.#ask(() => znode.resolveAmbiguousCreate());
    } else throw error;
  }

  #ask<T>(request: () => Promise<T>): Promise<T> {
    return askIn(this.#znode.session, this.#budget, request);
  }
}
