/**
 * The scripts as typed commands on one client.
 *
 * @module
 */
import { promiseTry } from "../../core/promise_try.ts";
import { type Clock, type Instant, instant } from "../../core/clock.ts";
import type { RenewAnswer } from "../../core/grant.ts";
import { ASK, LEAVE, QUERY, RENEW, type Script, STEAL } from "./scripts.ts";
import type { RedisClient } from "../client.ts";
import { askArguments, leaveArguments, stealArguments } from "./arguments.ts";
import type { LockKeys } from "./keys.ts";
import { type Owner, ownerValue } from "./owner_value.ts";
import { ServerClocks } from "./server_clocks.ts";
import {
  type AskAnswer,
  decodeAsk,
  decodeLeave,
  decodeQuery,
  decodeRenew,
  isNoScript,
  type LeaveAnswer,
  type QueryAnswer,
} from "./replies.ts";

/** How long in ms an ask may be executed after it was sent. Older copies do nothing. */
export const ASK_LIFE_MS = 1_000;
/** Longest claim in ms: what a waiter is granted before it has confirmed that it is there. */
export const MAX_CLAIM_MS = 3_000;

/** How an ask wants the lock. */
export type AskMode =
  | { readonly kind: "wait" | "try" | "attach" }
  | { readonly kind: "steal"; readonly victim: string };

/** A request for a lock. */
export interface Ask {
  readonly keys: LockKeys;
  readonly owner: Owner;
  readonly ttlMs: number;
  readonly mode: AskMode;
  /** Where a grant shall be told. */
  readonly inbox: string;
  /** Whether `PUBSUB NUMSUB` tells there whether the inbox listens. */
  readonly isCountable: boolean;
  /** The ticket of an earlier answer, 0 before any. */
  readonly ticket: number;
}

/** An answer, when its request was sent, and over which connection. */
export interface Asked {
  readonly answer: AskAnswer;
  readonly sent: Instant;
  readonly epoch: number;
  /** Whether the request was surely executed once: the connection is still the same. */
  readonly clean: boolean;
}

/** Sends scripts and learns the server's clock. Each call is one command (two on NOSCRIPT). */
export class RedisCommands {
  readonly #client: RedisClient;
  readonly #clock: Clock;
  readonly #commandTimeoutMs: number;
  readonly #clocks: ServerClocks;

  constructor(client: RedisClient, clock: Clock, commandTimeoutMs: number) {
    this.#client = client;
    this.#clock = clock;
    this.#commandTimeoutMs = commandTimeoutMs;
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

  /** Asks for the lock. `isWanted` tells whether the caller still wants it if it must be sent again. */
  async ask(ask: Ask, isWanted: () => boolean): Promise<Asked> {
    const { keys, mode } = ask;
    const sent = instant(this.#clock);
    const { epoch } = this.#client;
    const offsetMs = this.#clocks.offsetMs(keys.lock);
    const notAfterMs = offsetMs === null ? 0 : Math.round(sent.nowMs + offsetMs + ASK_LIFE_MS);
    const reply = mode.kind === "steal"
      ? await this.#run(STEAL, keys, stealArguments(ask, notAfterMs, mode.victim), isWanted)
      : await this.#run(ASK, keys, askArguments(ask, notAfterMs), isWanted);
    const answer = decodeAsk(reply);
    this.#clocks.learn(keys.lock, answer.serverMs - this.#clock.now());
    return { answer, sent, epoch, clean: epoch === this.#client.epoch };
  }

  /** Prolongs the lock if the owner still has it, and confirms a claim. */
  async renew(keys: LockKeys, owner: Owner, ttlMs: number): Promise<RenewAnswer> {
    return decodeRenew(await this.#run(RENEW, keys, [ownerValue(owner), String(ttlMs)]));
  }

  /**
   * Gives the lock back, or leaves the queue.
   *
   * @param value The whole owner value.
   * @param tombstoneMs How long asks of this value are refused from now on, 0 for not at all.
   * @param handoff Whether the next waiter becomes the owner, or is told to race.
   * @param keeps Whether a lock that is ours stays as it is.
   */
  async leave(
    keys: LockKeys,
    value: string,
    tombstoneMs: number,
    handoff: boolean,
    keeps: boolean,
  ): Promise<LeaveAnswer> {
    const args = leaveArguments(value, tombstoneMs, handoff, keeps);
    return decodeLeave(await this.#run(LEAVE, keys, args));
  }

  /** Tells who holds the lock and who waits. */
  async query(keys: LockKeys): Promise<QueryAnswer> {
    return decodeQuery(await this.#run(QUERY, keys, []));
  }

  /** What the server says of its memory. */
  async memoryInfo(): Promise<string> {
    return String(await this.#send("INFO", ["memory"], ""));
  }

  #run(
    script: Script,
    { lock, queue, waiters, token }: LockKeys,
    args: string[],
    isWanted?: () => boolean,
  ): Promise<unknown> {
    const all = [script.sha1, "4", lock, queue, waiters, token, ...args];
    return this.#send("EVALSHA", all, lock).catch((error) => {
      if (!isNoScript(error) || isWanted?.() === false) throw error;
      return this.#send("EVAL", all.with(0, script.source), lock);
    });
  }

  /** Sends a command; a client that would wait for ever for its reply is told to drop the connection. */
  #send(command: string, args: string[], key: string): Promise<unknown> {
    const client = this.#client;
    const reply = promiseTry(() => client.send(command, args, key));
    if (client.reset === undefined) return reply;
    const cancel = this.#clock.schedule(() => client.reset?.(), this.#commandTimeoutMs);
    return reply.finally(cancel);
  }
}
