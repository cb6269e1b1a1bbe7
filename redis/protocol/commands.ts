/**
 * The scripts as typed commands on one client, and the warnings that their replies give rise to.
 *
 * @module
 */
import { type Clock, type Instant, instant } from "../../core/clock.ts";
import type { ReleaseAnswer, RenewAnswer } from "../../core/grant.ts";
import { askArguments, leaveArguments, stealArguments } from "./arguments.ts";
import { ASK, LEAVE, QUERY, RENEW, type Script, STEAL } from "./scripts.ts";
import type { RedisClient } from "../client.ts";
import type { Warnings } from "./warnings.ts";
import { evictionWarning } from "./eviction.ts";
import { INBOX_CHANNEL_PREFIX, type LockKeys } from "./keys.ts";
import { type Owner, ownerValue } from "./owner_value.ts";
import { ServerClocks } from "./server_clocks.ts";
import {
  type AskAnswer,
  decodeAsk,
  decodeLeave,
  decodeQuery,
  decodeRenew,
  isNoScript,
  type QueryAnswer,
} from "./replies.ts";

/** How long in ms an ask may be executed after it was sent. Older copies of it do nothing. */
export const ASK_LIFE_MS = 1_000;
/** How long in ms a leave rejects earlier asks: the server executes none of them later than this. */
export const TOMBSTONE_MS: number = 2 * ASK_LIFE_MS;
/** Longest claim in ms: what a waiter is granted until it has confirmed the grant. */
export const MAX_CLAIM_MS = 3_000;

/** How a call wants the lock. */
export type AskMode =
  | { readonly kind: "wait" | "try" | "attach" }
  | { readonly kind: "steal"; readonly victim: string };

/** What a call asks for. One object serves all asks of the call, which updates it. */
export interface Ask {
  readonly keys: LockKeys;
  readonly owner: Owner;
  readonly ttlMs: number;
  readonly mode: AskMode;
  /** Aborts when the call ends: the caller's signal, and disposal. */
  readonly signal: AbortSignal;
  /** Id of the inbox that gets the grant message. */
  inbox: string;
  /** Whether `PUBSUB NUMSUB` counts the listener of that inbox. */
  isCountable: boolean;
  /** The ticket of the first answer; 0 before any. */
  ticket: number;
  /** Whether the call still wants the lock. Without this, no ask is sent a second time. */
  isWanted: boolean;
}

/** The answer to an ask, when the ask was sent, and on which connection. */
export interface AskResult {
  readonly answer: AskAnswer;
  readonly sent: Instant;
  readonly epoch: number;
  /** Whether the ask was executed exactly once: the connection is still the same. */
  readonly isClean: boolean;
}

/** Options of {@linkcode RedisCommands}. */
export interface RedisCommandsOptions {
  readonly clock: Clock;
  /** How long in ms a command may be without a reply before a client with `reset` is reset. */
  readonly commandTimeoutMs: number;
  /** Whether a release makes the next waiter the owner; otherwise it notifies it to race. */
  readonly handoff: boolean;
  readonly warnings: Warnings;
}

/** Sends scripts and learns the server's clock. Each call is one command (two on NOSCRIPT). */
export class RedisCommands {
  readonly #client: RedisClient;
  readonly #options: RedisCommandsOptions;
  readonly #clocks: ServerClocks;
  #isMemoryChecked = false;

  constructor(client: RedisClient, options: RedisCommandsOptions) {
    this.#client = client;
    this.#options = options;
    this.#clocks = new ServerClocks(client.cluster);
  }

  /** Changes with the connection, as {@linkcode RedisClient.epoch} does. */
  get epoch(): number {
    return this.#client.epoch;
  }

  /** Whether the client talks to Redis Cluster. */
  get cluster(): boolean {
    return this.#client.cluster;
  }

  /** Whether asks that are sent now carry the time after which they do nothing. */
  knowsServerTime({ lock }: LockKeys): boolean {
    return this.#clocks.offsetMs(lock) !== null;
  }

  /** Asks for the lock. The first answer of a server also starts a check of its memory settings. */
  async ask(ask: Ask): Promise<AskResult> {
    const { clock } = this.#options;
    const { keys, mode } = ask;
    const sent = instant(clock);
    const { epoch } = this.#client;
    const offsetMs = this.#clocks.offsetMs(keys.lock);
    const notAfterMs = offsetMs === null ? 0 : Math.round(sent.nowMs + offsetMs + ASK_LIFE_MS);
    const reply = mode.kind === "steal"
      ? await this.#run(STEAL, keys, stealArguments(ask, notAfterMs, mode.victim), ask)
      : await this.#run(ASK, keys, askArguments(ask, notAfterMs), ask);
    const answer = decodeAsk(reply);
    this.#clocks.learn(keys.lock, answer.serverMs - clock.now());
    if (!this.#isMemoryChecked) this.#checkMemory();
    return { answer, sent, epoch, isClean: epoch === this.#client.epoch };
  }

  /** Extends the lock if the owner still has it, and confirms a claim. */
  async renew(keys: LockKeys, owner: Owner, ttlMs: number): Promise<RenewAnswer> {
    return decodeRenew(await this.#run(RENEW, keys, [ownerValue(owner), String(ttlMs)]));
  }

  /**
   * Gives the lock back, or leaves the queue. Warns once if the next waiter could not be notified.
   *
   * @param value The whole owner value.
   * @param tombstoneMs How long asks of this value are rejected from now on; 0 for not at all.
   * @param keepsLock Whether a lock that this value holds stays held.
   */
  async leave(
    keys: LockKeys,
    value: string,
    tombstoneMs: number,
    keepsLock: boolean,
  ): Promise<ReleaseAnswer> {
    const { handoff, warnings } = this.#options;
    const args = leaveArguments(value, tombstoneMs, handoff, keepsLock);
    const { answer, isNotified } = decodeLeave(await this.#run(LEAVE, keys, args));
    if (!isNotified) {
      warnings.warn(
        `Redis refuses to publish to "${INBOX_CHANNEL_PREFIX}*", so waiters learn by polling`,
      );
    }
    return answer;
  }

  /** Reads the holder and the waiters. */
  async query(keys: LockKeys): Promise<QueryAnswer> {
    return decodeQuery(await this.#run(QUERY, keys, []));
  }

  /** Ends the connections that the client's adapter opened. */
  async close(): Promise<void> {
    await this.#client.close?.();
  }

  /** Warns if the server may evict lock keys. */
  async #checkMemory(): Promise<void> {
    this.#isMemoryChecked = true;
    try {
      const info = await this.#send("INFO", ["memory"], "");
      const warning = evictionWarning(String(info));
      if (warning !== null) this.#options.warnings.warn(warning);
    } catch {
      // The user may lack the right to INFO: a warning is not worth an error.
    }
  }

  /** Runs a script; sends its source if the server does not know it, and the call still wants it. */
  #run(
    script: Script,
    { lock, queue, waiters, token }: LockKeys,
    args: string[],
    ask?: Ask,
  ): Promise<unknown> {
    const all = [script.sha1, "4", lock, queue, waiters, token, ...args];
    return this.#send("EVALSHA", all, lock).catch((error) => {
      const isWanted = ask === undefined || (ask.isWanted && !ask.signal.aborted);
      if (!isNoScript(error) || !isWanted) throw error;
      return this.#send("EVAL", all.with(0, script.source), lock);
    });
  }

  /** Sends a command. If no reply comes, a client that would wait forever drops its connection. */
  #send(command: string, args: string[], key: string): Promise<unknown> {
    const reply = this.#client.send(command, args, key);
    if (this.#client.reset === undefined) return reply;
    const { clock, commandTimeoutMs } = this.#options;
    const cancel = clock.schedule(() => this.#client.reset?.(), commandTimeoutMs);
    return reply.finally(cancel);
  }
}
