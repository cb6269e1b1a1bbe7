/**
 * What the server may still know of one call, computed from its asks and their answers.
 *
 * @module
 */
import { type AskResult, type RedisCommands, TOMBSTONE_MS } from "./protocol/commands.ts";
import { refusalOf } from "./protocol/replies.ts";

/** The same as {@linkcode TOMBSTONE_MS} for asks that the server may execute at any time. */
const LONG_TOMBSTONE_MS = 30_000;

/** Whether a call must clean up on the server, and whether copies of its asks may follow. */
export class CleanUpState {
  readonly #commands: RedisCommands;
  /** The connection on which the call began. */
  readonly #epoch: number;
  /** Whether the server may have the call as the owner or in the queue. */
  #isKnown = false;
  /** Whether the server may execute a copy of an ask later. */
  #isUnclean = false;
  /** Whether it may do so at any time: no deadline was sent, as the server's clock was unknown. */
  #isUndated = false;
  /** How many asks are without an answer. */
  #unanswered = 0;

  constructor(commands: RedisCommands) {
    this.#commands = commands;
    this.#epoch = commands.epoch;
  }

  /** An ask is about to be sent. */
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

  /** A message says that the lock was granted. */
  onGrant(): void {
    this.#isKnown = true;
  }

  /** Whether anything of the call may be on the server, or come there. */
  get isNeeded(): boolean {
    return this.#isKnown || this.#isUnclean || this.#unanswered > 0;
  }

  /** How long in ms a leave must reject asks of this call; 0 if no ask can follow. */
  get tombstoneMs(): number {
    const isClean = !this.#isUnclean && this.#unanswered === 0 &&
      this.#commands.epoch === this.#epoch;
    if (isClean) return 0;
    return this.#isUndated ? LONG_TOMBSTONE_MS : TOMBSTONE_MS;
  }
}
