/**
 * What the server may know of one acquire call.
 *
 * @module
 */
import { ASK_LIFE_MS, type Asked, type RedisCommands } from "./protocol/commands.ts";
import type { LockKeys } from "./protocol/keys.ts";
import { refusalOf } from "./protocol/replies.ts";

/** How long asks are refused that were sent before the server's clock was known, in ms. */
const LONG_TOMBSTONE_MS = 30_000;
/** How long all others are refused: none is executed later than this. */
export const TOMBSTONE_MS = 2 * ASK_LIFE_MS;

/** Follows the asks of one call: what there is to clean up, and whether copies of them may follow. */
export class CallTrace {
  readonly #commands: RedisCommands;
  /** The connection on which it all began. */
  readonly #epoch: number;
  /** Whether the server may know us: as the owner or in the queue. */
  #mayHold = false;
  /** Whether a copy of an ask may be executed later. */
  #isUnclean = false;
  /** Whether such a copy may be executed at any time, for want of the server's clock. */
  #isTimeless = false;
  /** How many asks are without an answer. */
  #unanswered = 0;

  constructor(commands: RedisCommands) {
    this.#commands = commands;
    this.#epoch = commands.epoch;
  }

  /** Sends an ask and notes what becomes of it. */
  follow(keys: LockKeys, send: () => Promise<Asked>): Promise<Asked> {
    const { epoch } = this.#commands;
    const isTimeless = !this.#commands.knowsServerTime(keys);
    this.#isTimeless ||= isTimeless;
    this.#unanswered++;
    return send().then((asked) => {
      this.#unanswered--;
      const { state } = asked.answer;
      if (state === "granted" || state === "queued") this.#mayHold = true;
      if (!asked.clean) this.#isUnclean = true;
      else if (isTimeless) this.#isTimeless = false;
      return asked;
    }, (error) => {
      this.#unanswered--;
      if (refusalOf(error) === null || epoch !== this.#commands.epoch) this.#isUnclean = true;
      throw error;
    });
  }

  /** A message says that the lock is ours. */
  granted(): void {
    this.#mayHold = true;
  }

  /** Whether anything of the call may be on the server, or come there. */
  get isLeft(): boolean {
    return this.#mayHold || this.#isUnclean || this.#unanswered > 0;
  }

  /** How long in ms a leave must keep asks of this call from being executed; 0 if none can be. */
  get tombstoneMs(): number {
    const isClean = !this.#isUnclean && this.#unanswered === 0 &&
      this.#commands.epoch === this.#epoch;
    if (isClean) return 0;
    return this.#isTimeless ? LONG_TOMBSTONE_MS : TOMBSTONE_MS;
  }
}
