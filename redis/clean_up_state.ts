/**
 * Tracks what one call may have left on the server, from its asks and their answers. The clean-up
 * itself is in `hold.ts`.
 *
 * @module
 */
import { type AskListener, type AskResult, TOMBSTONE_MS } from "./protocol/ask.ts";
import type { RedisCommands } from "./protocol/commands.ts";
import { refusalOf } from "./protocol/failures.ts";

/** Like {@linkcode TOMBSTONE_MS}, for asks without a time limit: the server may execute them late. */
const LONG_TOMBSTONE_MS = 30_000;

/** Whether a call must clean up on the server, and whether copies of its asks may still be executed. */
export class CleanUpState implements AskListener {
  readonly #commands: RedisCommands;
  /** The connection of the first ask; `null` before it. */
  #epoch: number | null = null;
  /** Whether the server may know the call as the holder or as a waiter. */
  #isKnown = false;
  /** Whether the server may still execute a copy of an ask. */
  #isUnclean = false;
  /** Whether such a copy has no time limit: it was sent before the server's clock was known. */
  #isUndated = false;
  /** How many asks are unanswered. */
  #unanswered = 0;
  /** Resolves when none is; `null` unless somebody waits for it. */
  #whenSettled: PromiseWithResolvers<void> | null = null;

  constructor(commands: RedisCommands) {
    this.#commands = commands;
  }

  /** Implements {@linkcode AskListener}. */
  onHandOver(isDated: boolean): void {
    this.#epoch ??= this.#commands.epoch;
    if (!isDated) this.#isUndated = true;
    this.#unanswered++;
  }

  /** Implements {@linkcode AskListener}. */
  onAnswer({ answer: { state }, isClean, isDated }: AskResult): void {
    if (state === "granted" || state === "queued" || state === "searching") this.#isKnown = true;
    if (!isClean) this.#isUnclean = true;
    else if (!isDated) this.#isUndated = false;
    this.#settle();
  }

  /** Implements {@linkcode AskListener}. Only a refusal proves that the ask was not executed. */
  onFailure(error: unknown, epoch: number): void {
    if (refusalOf(error) === null || epoch !== this.#commands.epoch) this.#isUnclean = true;
    this.#settle();
  }

  /** A message says that the call was granted the lock. */
  onGrant(): void {
    this.#isKnown = true;
  }

  /** Whether an ask is unanswered. Its answer decides about the clean-up. */
  get isUnsettled(): boolean {
    return this.#unanswered > 0;
  }

  /** Resolves when no ask is unanswered. The call sends none any more. */
  settled(): Promise<void> {
    if (!this.isUnsettled) return Promise.resolve();
    this.#whenSettled ??= Promise.withResolvers();
    return this.#whenSettled.promise;
  }

  /** Whether the server knows of the call, or may learn of it by a late copy of an ask. */
  get isNeeded(): boolean {
    return this.#isKnown || this.#isUnclean;
  }

  /** How long in ms a leave must refuse asks of this call; 0 if no ask can follow it. */
  get tombstoneMs(): number {
    const isClean = !this.#isUnclean && !this.isUnsettled && this.#commands.epoch === this.#epoch;
    if (isClean) return 0;
    return this.#isUndated ? LONG_TOMBSTONE_MS : TOMBSTONE_MS;
  }

  #settle(): void {
    if (--this.#unanswered > 0) return;
    this.#whenSettled?.resolve();
    this.#whenSettled = null;
  }
}
