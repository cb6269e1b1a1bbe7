/**
 * The releases of one lease: how often they are sent, and for how long. The effect of the answer on the
 * lease is in `lease.ts`.
 *
 * @module
 */
import { attemptMs, retryDelayMs } from "./attempts.ts";
import type { Background } from "./background.ts";
import { type Clock, pause, settledWithin } from "../time/clock.ts";
import { LockSetupError } from "../contract/errors.ts";
import type { LeaseActions, ReleaseAnswer } from "./grant.ts";
import { promiseTry } from "../contract/promise_try.ts";

/** The parts of a strategy instance that releases use. */
export interface ReleaseContext {
  readonly clock: Clock;
  /** The clean-ups and the running releases. Disposal waits for both. */
  readonly background: Background;
  /** Aborts at the end of disposal. From then on nothing is retried. */
  readonly stopped: AbortSignal;
}

/** The last answer to a release, and whether an attempt before it was sent without an answer. */
export interface LastAnswer {
  readonly answer: ReleaseAnswer;
  readonly isRepeated: boolean;
}

const NO_ANSWER: ReleaseAnswer = { state: "unknown", cause: undefined };

/** Sends the releases of one lease. */
export class LeaseRelease {
  readonly #context: ReleaseContext;
  readonly #actions: LeaseActions;
  readonly #ttlMs: number;

  /** Takes the TTL of the lease in ms, which decides how long an attempt may take. */
  constructor(context: ReleaseContext, actions: LeaseActions, ttlMs: number) {
    this.#context = context;
    this.#actions = actions;
    this.#ttlMs = ttlMs;
  }

  /**
   * Sends releases until one is answered, at most until the deadline of the lease. A renewal that is under
   * way goes first, for as long as an attempt may take (invariant 3).
   */
  async untilAnswered(deadlineMs: number, renewing: Promise<unknown> | null): Promise<LastAnswer> {
    const { clock, stopped } = this.#context;
    const timeLeftMs = () => Math.max(0, deadlineMs - clock.now());
    let leftMs = timeLeftMs();
    if (renewing !== null) {
      await settledWithin(clock, renewing, leftMs);
      leftMs = timeLeftMs();
    }
    let isRepeated = false;
    for (; !stopped.aborted && leftMs > 0; isRepeated = true) {
      const answer = await this.#try(leftMs, false);
      if (answer.state !== "unknown") return { answer, isRepeated };
      await this.#pause(Math.min(retryDelayMs(this.#ttlMs), timeLeftMs()));
      leftMs = timeLeftMs();
    }
    return { answer: NO_ANSWER, isRepeated };
  }

  /**
   * Releases in the background until the service answers, at most for `durationMs`. A refusal is an
   * answer: no retry can change it.
   *
   * @param isLost Whether the lease is lost, and nobody has asked for its release.
   */
  inBackground(durationMs: number, renewing: Promise<unknown> | null, isLost: boolean): void {
    const { clock, background, stopped } = this.#context;
    const untilMs = clock.now() + durationMs;
    background.run(async () => {
      if (renewing !== null) await renewing;
      while (!stopped.aborted && clock.now() < untilMs) {
        const answer = await this.#try(attemptMs(this.#ttlMs), isLost);
        if (answer.state !== "unknown") return;
        await this.#pause(retryDelayMs(this.#ttlMs));
      }
    });
  }

  /** Sends one release. Without an answer in time the result is "unknown". */
  async #try(leftMs: number, isLost: boolean): Promise<ReleaseAnswer> {
    let answer = NO_ANSWER;
    const answered = promiseTry(() => this.#actions.release(isLost)).then(
      (given) => void (answer = given),
    );
    const limitMs = Math.min(Math.max(leftMs, 1), attemptMs(this.#ttlMs));
    await settledWithin(this.#context.clock, answered, limitMs);
    return answer;
  }

  /** Pauses before a retry. With many leases, a listener of each on the same signal would take too long. */
  #pause(delayMs: number): Promise<void> {
    const { clock, stopped } = this.#context;
    return pause(clock, delayMs, AbortSignal.any([stopped]));
  }
}

/** The error of a release that the service refuses for good. */
export function refusedRelease(
  lockName: string,
  { reason, cause }: Extract<ReleaseAnswer, { state: "refused" }>,
): LockSetupError {
  return new LockSetupError(
    `Cannot release lock ${JSON.stringify(lockName)}: ${reason}`,
    lockName,
    { cause },
  );
}
