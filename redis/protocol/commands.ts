/**
 * The scripts as typed commands on one client, and the warnings about the server's settings. When to
 * send a command is decided in `acquisition.ts` and `hold.ts`.
 *
 * @module
 */
import { type Clock, type Instant, instant } from "../../core/clock.ts";
import type { RenewAnswer } from "../../core/grant.ts";
import { askArguments, leaveArguments, stealArguments } from "./arguments.ts";
import { ASK, LEAVE, QUERY, RENEW, type Script, STEAL } from "./scripts.ts";
import type { RedisClient } from "../client.ts";
import type { Warnings } from "./warnings.ts";
import { evictionWarning } from "./eviction.ts";
import { isNoScript } from "./failures.ts";
import { INBOX_CHANNEL_PREFIX, type LockKeys } from "./keys.ts";
import { type Owner, ownerValue } from "./owner_value.ts";
import { ServerClocks } from "./server_clocks.ts";
import {
  type AskAnswer,
  decodeAsk,
  decodeLeave,
  decodeQuery,
  decodeRenew,
  type LeaveAnswer,
  type QueryAnswer,
} from "./replies.ts";

/** How long in ms after it was sent the server executes an ask. A later copy of it does nothing. */
export const ASK_LIFE_MS = 1_000;
/** How long in ms a tombstone refuses earlier asks: no copy of them is executed later than that. */
export const TOMBSTONE_MS: number = 2 * ASK_LIFE_MS;
/** Longest claim in ms: how long a grant from the queue lasts unless the waiter confirms it. */
export const MAX_CLAIM_MS = 3_000;

/** How a call asks for the lock: the modes of `ask.lua`, or a steal. */
export type AskMode =
  | { readonly kind: "wait" | "try" | "attach" }
  | { readonly kind: "steal"; readonly victimDigest: string };

/** The asks of one call. One object serves all of them, and the call updates it. */
export interface Ask {
  readonly keys: LockKeys;
  readonly owner: Owner;
  readonly ttlMs: number;
  readonly mode: AskMode;
  /** Aborts when the call ends: the caller's signal, and disposal. */
  readonly signal: AbortSignal;
  /** Id of the inbox that gets the grant message. */
  inbox: string;
  /** Whether `PUBSUB NUMSUB` counts the subscriber of that inbox. */
  isCountable: boolean;
  /** The ticket of the first answer; 0 before that. */
  ticket: number;
  /** Whether the call still wants the lock. If not, a NOSCRIPT does not repeat the ask. */
  isWanted: boolean;
}

/** The answer to an ask, with the time and the connection of the ask. */
export interface AskResult {
  readonly answer: AskAnswer;
  readonly sent: Instant;
  readonly epoch: number;
  /** Whether the ask was executed exactly once, as the connection has not changed. */
  readonly isClean: boolean;
}

/** Options of {@linkcode RedisCommands}. */
export interface RedisCommandsOptions {
  readonly clock: Clock;
  /** How long in ms a command may go unanswered before a client with `reset` is reset. */
  readonly commandTimeoutMs: number;
  /** Whether a release makes the next waiter the owner; otherwise it notifies it to race. */
  readonly handoff: boolean;
  readonly warnings: Warnings;
}

/** Sends scripts and learns the server's clock. Each call is one command, two after a NOSCRIPT. */
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

  /** Whether asks that are sent now carry a time limit. It needs the server's clock. */
  knowsServerTime({ lock }: LockKeys): boolean {
    return this.#clocks.offsetMs(lock) !== null;
  }

  /** Asks for the lock. The first answer also starts a check of the server's memory settings. */
  async ask(ask: Ask): Promise<AskResult> {
    const { clock } = this.#options;
    const { keys, mode } = ask;
    const sent = instant(clock);
    const { epoch } = this.#client;
    const offsetMs = this.#clocks.offsetMs(keys.lock);
    const notAfterMs = offsetMs === null ? 0 : Math.round(sent.nowMs + offsetMs + ASK_LIFE_MS);
    const reply = mode.kind === "steal"
      ? await this.#run(STEAL, keys, stealArguments(ask, notAfterMs, mode.victimDigest), ask)
      : await this.#run(ASK, keys, askArguments(ask, notAfterMs), ask);
    const answer = decodeAsk(reply);
    this.#clocks.learn(keys.lock, answer.serverMs - clock.now());
    if (!this.#isMemoryChecked) this.#checkMemory();
    return { answer, sent, epoch, isClean: epoch === this.#client.epoch };
  }

  /** Extends the lock if the owner still holds it, and confirms a claim. */
  async renew(keys: LockKeys, owner: Owner, ttlMs: number): Promise<RenewAnswer> {
    return decodeRenew(await this.#run(RENEW, keys, [ownerValue(owner), String(ttlMs)]));
  }

  /**
   * Releases the lock, or leaves the queue. Warns once if the next waiter could not be notified.
   *
   * @param value The whole owner value.
   * @param tombstoneMs How long in ms asks of this value are refused from now on; 0 for not at all.
   * @param keepsLock Whether a lock that this value holds stays held.
   */
  async leave(
    keys: LockKeys,
    value: string,
    tombstoneMs: number,
    keepsLock: boolean,
  ): Promise<LeaveAnswer> {
    const { handoff, warnings } = this.#options;
    const args = leaveArguments(value, tombstoneMs, handoff, keepsLock);
    const answer = decodeLeave(await this.#run(LEAVE, keys, args));
    if (answer.isSearching) await this.leave(keys, value, tombstoneMs, keepsLock);
    if (!answer.isNotified) {
      warnings.warn(
        `Redis refuses to publish to "${INBOX_CHANNEL_PREFIX}*", so waiters poll. Check the user's ACL`,
      );
    }
    return answer;
  }

  /** Reads the holder and the waiters. */
  async query(keys: LockKeys): Promise<QueryAnswer> {
    return decodeQuery(await this.#run(QUERY, keys, []));
  }

  /** Closes the connections that the client's adapter opened. */
  async close(): Promise<void> {
    await this.#client.close?.();
  }

  /** Warns if the server may evict the keys of locks. */
  async #checkMemory(): Promise<void> {
    this.#isMemoryChecked = true;
    try {
      const info = await this.#send("INFO", ["memory"], "");
      const warning = evictionWarning(String(info));
      if (warning !== null) this.#options.warnings.warn(warning);
    } catch {
      // The user may lack the right to INFO. Locks work without this check.
    }
  }

  /** Runs a script. Sends its source if the server does not know it and the call still wants the lock. */
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

  /** Sends a command. Without a reply in time, a client that would wait for ever is reset. */
  #send(command: string, args: string[], key: string): Promise<unknown> {
    const reply = this.#client.send(command, args, key);
    if (this.#client.reset === undefined) return reply;
    const { clock, commandTimeoutMs } = this.#options;
    const cancel = clock.schedule(() => this.#client.reset?.(), commandTimeoutMs);
    return reply.finally(cancel);
  }
}
