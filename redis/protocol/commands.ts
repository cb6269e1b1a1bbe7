/**
 * The scripts as typed commands on one client, and the warnings about the server's settings. When to
 * send a command is decided in `acquisition.ts` and `hold.ts`.
 *
 * @module
 */
import { instant } from "../../core/time/clock.ts";
import type { RenewAnswer } from "../../core/lease/grant.ts";
import type { Warnings } from "../../core/contract/warnings.ts";
import type { RedisClient } from "../client.ts";
import { askArguments, leaveArguments, stealArguments } from "./arguments.ts";
import { type Ask, ASK_LIFE_MS, type AskResult } from "./ask.ts";
import type { AskTurn, CommandWindow } from "./command_window.ts";
import { evictionWarning } from "./eviction.ts";
import { INBOX_CHANNEL_PREFIX, type LockKeys } from "./keys.ts";
import { type Owner, ownerValue } from "./owner_value.ts";
import {
  decodeAsk,
  decodeLeave,
  decodeQuery,
  decodeRenew,
  type LeaveAnswer,
  type QueryAnswer,
} from "./replies.ts";
import { ScriptRunner, type ScriptRunnerOptions } from "./script_runner.ts";
import { ASK, LEAVE, QUERY, RENEW, STEAL } from "./scripts.ts";
import { ServerClocks } from "./server_clocks.ts";

/** How often a leave is sent until the search for the next waiter is over. Each looks at 64 inboxes. */
const MAX_SEARCHES = 256;

/** Options of {@linkcode RedisCommands}. */
export interface RedisCommandsOptions extends ScriptRunnerOptions {
  /** Whether a release makes the next waiter the owner; otherwise it notifies it to race. */
  readonly handoff: boolean;
  readonly warnings: Warnings;
}

/** An ask that waits for its turn. */
interface WaitingAsk {
  readonly turn: AskTurn;
  readonly result: Promise<AskResult>;
}

/** Sends scripts and learns the server's clock. */
export class RedisCommands {
  readonly #client: RedisClient;
  readonly #options: RedisCommandsOptions;
  readonly #scripts: ScriptRunner;
  readonly #window: CommandWindow;
  readonly #clocks: ServerClocks;
  readonly #waitingAsks = new Map<Ask, WaitingAsk>();
  #isMemoryChecked = false;

  constructor(client: RedisClient, options: RedisCommandsOptions) {
    this.#client = client;
    this.#options = options;
    this.#scripts = new ScriptRunner(client, options);
    this.#window = this.#scripts.window;
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

  /** Why the connection is down, if the client knows. */
  get connectionError(): unknown {
    return this.#client.connectionError;
  }

  /** Why no command can ever be sent, as {@linkcode RedisClient.unusable} says. */
  get unusable(): string | undefined {
    return this.#client.unusable;
  }

  /** As {@linkcode CommandWindow.silentSinceMs}. */
  get silentSinceMs(): number | null {
    return this.#window.silentSinceMs;
  }

  /**
   * Asks for the lock, at once if the window has a place. An ask that still waits for its turn is not
   * sent twice. Rejects if there is no answer within the budget of the ask, and with a `SilenceError`
   * if the ask cannot be handed to the client.
   */
  ask(ask: Ask): Promise<AskResult> {
    if (this.#window.take()) return ask.budget.settle(this.#handOver(ask));
    const waiting = this.#waitingAsks.get(ask) ?? this.#lineUp(ask);
    return waiting.result;
  }

  /** Forgets an ask that waits for its turn: it is never sent, and its promise never settles. */
  withdraw(ask: Ask): void {
    const waiting = this.#waitingAsks.get(ask);
    if (waiting === undefined) return;
    this.#waitingAsks.delete(ask);
    this.#window.withdraw(waiting.turn);
  }

  #lineUp(ask: Ask): WaitingAsk {
    const sinceMs = ask.budget.outageSinceMs ?? this.#options.clock.now();
    const turn = this.#window.askTurn(sinceMs);
    const result = turn.come.finally(() => this.#waitingAsks.delete(ask)).then(() => {
      if (ask.isWanted) return ask.budget.settle(this.#handOver(ask));
      this.#window.free(false);
      throw new Error("The call has ended");
    });
    const waiting = { turn, result };
    this.#waitingAsks.set(ask, waiting);
    return waiting;
  }

  /** Hands an ask to the client. The first answer also starts a check of the memory settings. */
  async #handOver(ask: Ask): Promise<AskResult> {
    const { clock } = this.#options;
    const { keys, listener } = ask;
    const sent = instant(clock);
    const { epoch } = this.#client;
    const offsetMs = this.#clocks.offsetMs(keys.lock);
    const isDated = offsetMs !== null;
    const notAfterMs = isDated ? Math.round(sent.nowMs + offsetMs + ASK_LIFE_MS) : 0;
    listener.onHandOver(isDated, sent);
    try {
      const answer = decodeAsk(await this.#runAsk(ask, notAfterMs));
      const { serverMs } = answer;
      const times = { serverMs, sentMs: sent.nowMs, receivedMs: clock.now(), epoch };
      this.#clocks.learn(keys.lock, times);
      if (!this.#isMemoryChecked) this.#checkMemory();
      const result = { answer, sent, epoch, isClean: epoch === this.#client.epoch, isDated };
      listener.onAnswer(result);
      return result;
    } catch (error) {
      listener.onFailure(error, epoch);
      throw error;
    }
  }

  #runAsk(ask: Ask, notAfterMs: number): Promise<unknown> {
    const { keys, owner, ttlMs, mode, ticket } = ask;
    if (mode.kind === "steal") {
      return this.#scripts.run(
        STEAL,
        keys,
        stealArguments(ask, notAfterMs, mode.victimDigest),
        ask,
      );
    }
    const { id: inbox, isCountable } = ask.inbox;
    const args = askArguments({ owner, ttlMs, mode, inbox, isCountable, ticket }, notAfterMs);
    return this.#scripts.run(ASK, keys, args, ask);
  }

  /** Extends the lock if the owner still holds it, and confirms a claim. */
  async renew(keys: LockKeys, owner: Owner, ttlMs: number): Promise<RenewAnswer> {
    const args = [ownerValue(owner), String(ttlMs)];
    return decodeRenew(await this.#scripts.runUrgent(RENEW, keys, args));
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
    const args = leaveArguments(value, tombstoneMs, this.#options.handoff, keepsLock);
    const leave = decodeLeave(await this.#scripts.runUrgent(LEAVE, keys, args));
    if (!leave.isNotified) this.#warnOfPublish();
    if (leave.isSearching) await this.#finishSearch(keys, args);
    return leave;
  }

  /**
   * Sends a leave until the search for the next waiter is over. If that fails, the next ask of a waiter
   * goes on with the search.
   */
  async #finishSearch(keys: LockKeys, args: string[]): Promise<void> {
    try {
      for (let i = 0; i < MAX_SEARCHES; i++) {
        const leave = decodeLeave(await this.#scripts.runUrgent(LEAVE, keys, args));
        if (!leave.isNotified) this.#warnOfPublish();
        if (!leave.isSearching) return;
      }
    } catch {
      // The caller has its answer already: that of the first leave.
    }
  }

  #warnOfPublish(): void {
    this.#options.warnings.warn(
      `Redis refuses to publish to "${INBOX_CHANNEL_PREFIX}*", so waiters poll. Check the user's ACL`,
    );
  }

  /**
   * Reads the holder and the waiters.
   *
   * @param maxWaiters How many waiters to list. The server lists 64 at most.
   */
  async query(keys: LockKeys, maxWaiters: number): Promise<QueryAnswer> {
    return decodeQuery(await this.#scripts.runUrgent(QUERY, keys, [String(maxWaiters)]));
  }

  /** Closes the connections that the client's adapter opened. */
  async close(): Promise<void> {
    await this.#client.close?.();
  }

  /** Warns if the server may evict the keys of locks. */
  async #checkMemory(): Promise<void> {
    this.#isMemoryChecked = true;
    try {
      const info = await this.#scripts.runPlain("INFO", ["memory"]);
      const warning = evictionWarning(String(info));
      if (warning !== null) this.#options.warnings.warn(warning);
    } catch {
      // The user may lack the right to INFO. Locks work without this check.
    }
  }
}
