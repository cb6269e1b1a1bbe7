/**
 * Tracks what one call may have left on the server, from its asks and their answers. The clean-up
 * itself is in `hold.ts`.
 *
 * @module
 */
import { type AskResult, type RedisCommands, TOMBSTONE_MS } from "./protocol/commands.ts";
import { refusalOf } from "./protocol/failures.ts";

/** Like {@linkcode TOMBSTONE_MS}, for asks without a time limit: the server may execute them late. */
const LONG_TOMBSTONE_MS = 30_000;

/** Whether a call must clean up on the server, and whether copies of its asks may still be executed. */
export class CleanUpState {
  readonly #commands: RedisCommands;
  /** The connection on which the call began. */
  readonly #epoch: number;
  /** Whether the server may know the call as the holder or as a waiter. */
  #isKnown = false;
  /** Whether the server may still execute a copy of an ask. */
  #isUnclean = false;
  /** Whether such a copy has no time limit: it was sent before the server's clock was known. */
  #isUndated = false;
  /** How many asks are unanswered. */
  #unanswered = 0;

  constructor(commands: RedisCommands) {
    this.#commands = commands;
    this.#epoch = commands.epoch;
  }

  /**
   * An ask is about to be sent.
   *
   * @param isDated Whether it carries a time limit.
   */
  onAsk(isDated: boolean): void {
    if (!isDated) this.#isUndated = true;
    this.#unanswered++;
  }

  /** The server has answered an ask. */
  onAnswer({ answer: { state }, isClean }: AskResult, isDated: boolean): void {
    this.#unanswered--;
    if (state === "granted" || state === "queued") this.#isKnown = true;
    if (!isClean) this.#isUnclean = true;
    else if (!isDated) this.#isUndated = false;
  }

  /**
   * An ask has failed. Only a refusal by the server proves that it was not executed.
   *
   * @param epoch The connection on which the ask was sent.
   */
  onFailure(error: unknown, epoch: number): void {
    this.#unanswered--;
    if (refusalOf(error) === null || epoch !== this.#commands.epoch) this.#isUnclean = true;
  }

  /** A message says that the call was granted the lock. */
  onGrant(): void {
    this.#isKnown = true;
  }

  /** Whether the server knows of the call, or may learn of it by a late copy of an ask. */
  get isNeeded(): boolean {
    return this.#isKnown || this.#isUnclean || this.#unanswered > 0;
  }

  /** How long in ms a leave must refuse asks of this call; 0 if no ask can follow it. */
  get tombstoneMs(): number {
    const isClean = !this.#isUnclean && this.#unanswered === 0 &&
      this.#commands.epoch === this.#epoch;
    if (isClean) return 0;
    return this.#isUndated ? LONG_TOMBSTONE_MS : TOMBSTONE_MS;
  }
}
