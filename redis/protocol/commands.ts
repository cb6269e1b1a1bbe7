/**
 * The scripts as typed commands on one client, within the window of unanswered commands, and the warnings
 * about the server's settings. When a command is sent is decided in `acquisition.ts`.
 *
 * @module
 */
import type { Clock } from "../../core/time/clock.ts";
import type { LeaseRequest, RenewAnswer } from "../../core/lease/grant.ts";
import type { Background } from "../../core/lease/lifetime.ts";
import type { Warnings } from "../../core/contract/warnings.ts";
import type { RedisClient } from "../client.ts";
import {
  type Ask,
  type AskAnswer,
  askArguments,
  decodeAsk,
  decodeLeave,
  decodeQuery,
  decodeRenew,
  isLate,
  type LeaveAnswer,
  leaveArguments,
  mergeLeaves,
  type QueryAnswer,
  stealArguments,
} from "./wire.ts";
import { CommandWindow } from "./command_window.ts";
import { hideCommand, isNoScript, refusalOf, UnusableClientError } from "./failures.ts";
import { INBOX_CHANNEL_PREFIX, isOurs, type LockKeys } from "./keys.ts";
import { ASK, LEAVE, QUERY, RENEW, type Script, STEAL } from "./scripts.ts";
import { type AskSent, ServerClocks } from "./server_clocks.ts";

/** How often a leave is sent until the search for the next waiters is over. Each looks at 64 of them. */
const MAX_SEARCHES = 1_024;

export interface RedisCommandsOptions {
  readonly clock: Clock;
  /** How long in ms a command may go unanswered before a client with `reset` is reset. */
  readonly commandTimeoutMs: number;
  /** How long in ms an ask waits for its turn while nothing is answered. */
  readonly unavailableAfterMs: number;
  /** Whether a release makes the next waiter the owner; otherwise it notifies it to race. */
  readonly handoff: boolean;
  /** What disposal waits for: the rest of a search after a leave. */
  readonly background: Background;
  readonly warnings: Warnings;
}

/** What `PTTL` says of a key without a TTL. */
const NO_TTL = -1;

/** A token as other libraries write it, redis-py without a TTL, too. */
const FOREIGN_TOKEN = /^[0-9a-f-]{20,}$/i;

/** What has a slot: an ask, or a script that is wanted whatever happens. */
type Slot = Pick<Ask, "isWanted">;

const WANTED: Slot = { isWanted: true };

/** Sends scripts, and learns the server's clock. Each run is one command, two after a NOSCRIPT. */
export class RedisCommands {
  readonly client: RedisClient;
  readonly window: CommandWindow;
  readonly clocks: ServerClocks;
  readonly #options: RedisCommandsOptions;
  /** The urgent scripts that wait for their turn: the last one per script and owner value. */
  readonly #waiting = new Map<string, { args: string[]; readonly answer: Promise<unknown> }>();
  #isMemoryChecked = false;

  constructor(client: RedisClient, options: RedisCommandsOptions) {
    this.client = client;
    this.#options = options;
    this.window = new CommandWindow(options.clock, options.unavailableAfterMs);
    this.clocks = new ServerClocks(client.cluster);
  }

  /**
   * Sends an ask, or a steal. The caller has taken a slot in the window, and keeps it if the answer is "late".
   *
   * @param lastMomentMs The server time in ms after which the ask does nothing; 0 for no limit.
   */
  ask(ask: Ask, sent: AskSent, lastMomentMs: number): Promise<AskAnswer> {
    const { keys } = ask;
    const decode = (reply: unknown): AskAnswer => {
      const answer = decodeAsk(reply);
      this.clocks.learn(keys.lock, answer.serverMs, sent, this.#options.clock.now());
      if (!this.#isMemoryChecked) this.#checkMemory();
      if (ask.ticket === 0 && isHeldForever(answer)) this.#checkHolder(keys);
      return answer;
    };
    return ask.mode === "steal"
      ? this.#send(STEAL, keys, stealArguments(ask, lastMomentMs), decode, ask)
      : this.#send(ASK, keys, askArguments(ask, lastMomentMs), decode, ask);
  }

  /** Whether the server has answered others since then. Unknown in a cluster, where another node may have. */
  answersOthersSince(sinceMs: number): boolean {
    return !this.client.cluster && this.window.answeredAtMs > sinceMs;
  }

  /** Extends the lock if the owner value still holds it, and confirms a claim. */
  renew(
    keys: LockKeys,
    value: string,
    ttlMs: number,
    request: LeaseRequest,
  ): Promise<RenewAnswer> {
    return this.#send(RENEW, keys, [value, String(ttlMs)], decodeRenew, undefined, request);
  }

  /** Releases the lock, or leaves the queue. Warns once if the next waiter could not be notified. */
  leave(
    keys: LockKeys,
    value: string,
    tombstoneMs: number,
    keepsLock: boolean,
    request?: LeaseRequest,
  ): Promise<LeaveAnswer> {
    const args = leaveArguments(value, tombstoneMs, this.#options.handoff, keepsLock);
    return this.#send(
      LEAVE,
      keys,
      args,
      (reply) => {
        const leave = decodeLeave(reply);
        if (!leave.isNotified) this.#warnOfPublish();
        if (leave.isSearching) this.#options.background.run(() => this.#finishSearch(keys, args));
        return leave;
      },
      undefined,
      request,
    );
  }

  /**
   * Sends a leave until the search for the next waiters is over. If that fails, the next ask of a waiter
   * goes on with the search.
   */
  async #finishSearch(keys: LockKeys, args: string[]): Promise<void> {
    try {
      for (let i = 0; i < MAX_SEARCHES; i++) {
        const later = this.#waiting.get(turnId(LEAVE, keys, args));
        if (later !== undefined) return void await later.answer; // it goes on with the search
        const leave = await this.#send(LEAVE, keys, args, decodeLeave);
        if (!leave.isNotified) this.#warnOfPublish();
        if (!leave.isSearching) return;
      }
    } catch {
      // Nobody waits for it: the answer to the caller was that of the first leave.
    }
  }

  #warnOfPublish(): void {
    this.#options.warnings.warn(
      `Redis refuses to publish to "${INBOX_CHANNEL_PREFIX}*", so waiters poll. Check the user's ACL`,
    );
  }

  /** Reads the holder and the waiters. The server lists 64 waiters at most. */
  query(keys: LockKeys, maxWaiters: number): Promise<QueryAnswer> {
    return this.#send(QUERY, keys, [String(maxWaiters)], decodeQuery);
  }

  /**
   * Sends a script, and frees its slot when it is answered. A script that has no slot yet takes one, or waits
   * for it ahead of all asks.
   *
   * @param decode Reads the reply.
   * @param slot What has taken a slot. If it is no longer wanted, a script that the server does not know is not
   * sent again with its source.
   * @param request The request of a lease, which learns of its turn.
   */
  #send<T>(
    script: Script,
    keys: LockKeys,
    args: string[],
    decode: (reply: unknown) => T | Promise<T>,
    slot?: Slot,
    request?: LeaseRequest,
  ): Promise<T> {
    if (slot === undefined && !this.window.take()) {
      if (request !== undefined) {
        const turn = this.window.urgentTurn(request);
        return turn.then(() => this.#send(script, keys, args, decode, WANTED));
      }
      return this.#sendInTurn(script, keys, args, decode);
    }
    const { lock, queue, waiters, token } = keys;
    const all = [script.sha1, "4", lock, queue, waiters, token].concat(args);
    const onReply = (reply: unknown) => {
      this.#onReply(reply, slot);
      return decode(reply);
    };
    let reply: Promise<unknown>;
    try {
      reply = this.client.send("EVALSHA", all, lock);
      if (this.client.reset !== undefined) this.#resetUnless(reply);
    } catch (error) {
      reply = Promise.reject(error); // the slot must be freed then, too
    }
    return reply.then(onReply, (error) => {
      if (!isNoScript(error) || slot?.isWanted === false) throw this.#onFailure(error);
      return this.#sendCommand("EVAL", all.with(0, script.source), lock, slot).then(decode);
    });
  }

  /**
   * Waits for a slot. If the same script for the same owner value waits already, one of them is sent, as the
   * answer to both: retries during an outage do not add up.
   */
  #sendInTurn<T>(
    script: Script,
    keys: LockKeys,
    args: string[],
    decode: (reply: unknown) => T | Promise<T>,
  ): Promise<T> {
    const id = turnId(script, keys, args);
    const earlier = this.#waiting.get(id);
    if (earlier !== undefined) {
      if (script !== LEAVE) earlier.args = args;
      if (script !== LEAVE || mergeLeaves(earlier.args, args)) return earlier.answer as Promise<T>;
    }
    const answer: Promise<T> = this.window.urgentTurn().then(() => {
      if (this.#waiting.get(id) === waiting) this.#waiting.delete(id);
      return this.#send(script, keys, waiting.args, decode, WANTED);
    });
    const waiting = { args, answer };
    this.#waiting.set(id, waiting);
    return answer;
  }

  /** Sends a command that has a slot, and frees the slot when it is answered. */
  async #sendCommand(
    command: string,
    args: string[],
    key: string,
    slot?: Slot,
  ): Promise<unknown> {
    let reply: unknown;
    try {
      const replied = this.client.send(command, args, key);
      if (this.client.reset !== undefined) this.#resetUnless(replied);
      reply = await replied;
    } catch (error) {
      throw this.#onFailure(error);
    }
    this.#onReply(reply, slot);
    return reply;
  }

  /** Frees the slot, unless it is of an ask that came too late: that one is sent again before later ones. */
  #onReply(reply: unknown, slot: Slot | undefined): void {
    const isAsk = slot !== undefined && slot !== WANTED;
    if (!isAsk || !isLate(reply)) this.window.free(true);
  }

  /** Frees the slot. Returns the error without the command's arguments, or why no command can be sent. */
  #onFailure(error: unknown): unknown {
    this.window.free(refusalOf(error) !== null);
    hideCommand(error);
    const { unusable } = this.client;
    return unusable === undefined ? error : new UnusableClientError(unusable, { cause: error });
  }

  /** Resets a client that would wait forever, unless there is a reply in time. */
  #resetUnless(replied: Promise<unknown>): void {
    const { clock, commandTimeoutMs } = this.#options;
    const cancel = clock.schedule(() => this.client.reset?.(), commandTimeoutMs);
    replied.then(cancel, cancel);
  }

  /** Warns if the lock key looks like data: then nobody ever gets the lock. */
  async #checkHolder(keys: LockKeys): Promise<void> {
    try {
      const { value, leftMs } = await this.query(keys, 0);
      if (value === null || leftMs !== NO_TTL || isOurs(value) || FOREIGN_TOKEN.test(value)) return;
    } catch {
      return; // the next call looks again
    }
    const what = "is a string without a TTL that no known lock library has written. Nobody gets " +
      "the lock before it is deleted: if it is data, use another 'keyPrefix'";
    this.#options.warnings.warn(`The key of a lock, ${JSON.stringify(keys.lock)}, ${what}`);
  }

  async #checkMemory(): Promise<void> {
    this.#isMemoryChecked = true;
    if (!this.window.take()) await this.window.urgentTurn();
    try {
      const info = await this.#sendCommand("INFO", ["memory"], "");
      const warning = evictionWarning(String(info));
      if (warning !== null) this.#options.warnings.warn(warning);
    } catch {
      // The user may lack the right to INFO. Locks work without this check.
    }
  }
}

/** What a script that waits for its turn has in common with those that it is merged with. */
function turnId({ sha1 }: Script, { lock }: LockKeys, [value]: string[]): string {
  return `${sha1} ${value} ${lock}`;
}

/** Whether the key of a lock that is held has no TTL, and no holder of this library is known. */
function isHeldForever(answer: AskAnswer): boolean {
  if (answer.state === "queued") return answer.leftMs === NO_TTL && !answer.holderIsOurs;
  return answer.state === "held" && answer.leftMs === NO_TTL;
}

/**
 * Reads `INFO memory`: a warning if the server may evict lock keys, or `null`. Lock keys have a TTL, so every
 * policy except `noeviction` can choose them.
 *
 * @see {@link https://redis.io/docs/latest/develop/reference/eviction/}
 */
export function evictionWarning(info: string): string | null {
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1];
  const limit = /^maxmemory:(\d+)/m.exec(info)?.[1];
  if (policy === undefined || policy === "noeviction" || limit === undefined || limit === "0") {
    return null;
  }
  return `Redis may evict held locks when its memory is full, as 'maxmemory-policy' is "${policy}": ` +
    `set it to "noeviction" on the server that keeps the locks`;
}
