/**
 * One acquire call, from its first ask to a lease or to the clean-up.
 *
 * @module
 */
import { pause } from "../core/clock.ts";
import type { WaitInfo } from "../core/distributed_lock.ts";
import type { ManagedLease } from "../core/lease.ts";
import type { LeaseEngine } from "../core/lease_engine.ts";
import { type Ask, ASK_LIFE_MS, type Asked, type RedisCommands } from "./commands.ts";
import { type Patience, RETRY_MS } from "./patience.ts";
import { refusalOf } from "./replies.ts";
import { pollDelayMs } from "./waiting.ts";

/** What an acquisition works with. */
export interface AcquisitionOptions {
  readonly engine: LeaseEngine;
  readonly commands: RedisCommands;
  readonly patience: Patience;
  /** Whether to wait for a holder. */
  readonly wait: boolean;
  /** The caller's own signal and disposal. */
  readonly signal: AbortSignal;
  readonly onWait: (info: WaitInfo) => void;
  /** Makes the lease of a grant; `null` if the grant is known too late. */
  open(asked: Asked): ManagedLease | null;
}

/**
 * Asks until the lock is ours, or somebody else's and `wait` is false. At most one ask is without an
 * answer at any time, so that a client's offline queue cannot grow.
 */
export class Acquisition {
  readonly #ask: Ask;
  readonly #options: AcquisitionOptions;
  /** The connection on which it all began. */
  readonly #epoch: number;
  /** Whether a request may have taken the lock, or may still take it, without our holding a lease. */
  #mayHold = false;
  /** Until when, in monotonic ms, a copy of our last ask may be executed. */
  #asksEndMs = 0;

  constructor(ask: Ask, options: AcquisitionOptions) {
    this.#ask = ask;
    this.#options = options;
    this.#epoch = options.commands.epoch;
  }

  /** Runs to the end. Whatever way it ends without a lease, nothing of it stays on the server. */
  async run(): Promise<ManagedLease | null> {
    let lease: ManagedLease | null = null;
    try {
      lease = await this.#loop();
    } finally {
      if (lease === null && this.#mayHold) this.#cleanUp();
    }
    return lease;
  }

  async #loop(): Promise<ManagedLease | null> {
    const { engine, patience, wait, signal, onWait, open } = this.#options;
    for (let told = false;;) {
      const asked = await this.#askOnce();
      signal.throwIfAborted();
      if (asked === null) continue;
      const { answer } = asked;
      if (answer.state === "granted") {
        const lease = open(asked);
        if (lease !== null) return lease;
        patience.check(); // known too late: ask again under the same owner
        continue;
      }
      patience.answered();
      if (answer.state === "late") continue; // now the server's clock is known
      if (!wait) return null;
      if (!told) onWait({});
      told = true;
      await pause(engine.clock, pollDelayMs(answer.leftMs, Math.random()), signal);
    }
  }

  /** One ask. `null` if it failed in a way that may pass. */
  async #askOnce(): Promise<Asked | null> {
    const { commands, engine, patience, signal } = this.#options;
    const before = this.#mayHold;
    this.#mayHold = true;
    this.#asksEndMs = engine.clock.now() + ASK_LIFE_MS;
    try {
      const asked = await patience.settle(commands.ask(this.#ask, () => !signal.aborted));
      // No earlier copy of ours is about, and this one was executed once and did nothing.
      if (asked.answer.state !== "granted" && asked.clean) this.#mayHold = before;
      return asked;
    } catch (error) {
      if (refusalOf(error) !== null) this.#mayHold = before;
      await patience.bear(error);
      return null;
    }
  }

  /**
   * Releases in the background what we may hold: at once, which is enough on a connection that never
   * broke, for it keeps the order. Else again when no copy of an ask can be executed any more: a copy
   * that runs after the first release would take the lock for nobody. Ends when the key would have
   * run out by itself.
   */
  #cleanUp(): void {
    const { commands, engine } = this.#options;
    const { keys, owner, ttlMs } = this.#ask;
    const asksEndMs = this.#asksEndMs;
    const untilMs = asksEndMs + ttlMs;
    engine.background(async () => {
      while (!engine.stopped.aborted && engine.clock.now() < untilMs) {
        const sentMs = engine.clock.now();
        let delayMs = RETRY_MS;
        try {
          await commands.release(keys, owner);
          if (sentMs > asksEndMs || commands.epoch === this.#epoch) return;
          delayMs = asksEndMs - sentMs + 1;
        } catch {
          // Not answered, or refused for now.
        }
        await pause(engine.clock, delayMs, engine.stopped);
      }
    });
  }
}
