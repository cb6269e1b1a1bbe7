import type { Clock } from "../../core/time/clock.ts";
import type { LeaseRequest, RenewAnswer } from "../../core/lease/grant.ts";
import type { Background } from "../../core/lease/lifetime.ts";
import type { RedisClient } from "../client.ts";
import {
  type Ask,
  type AskAnswer,
  askArguments,
  decodeAsk,
  decodeLeave,
  decodeQuery,
  decodeRenew,
  decodeScan,
  isLate,
  leaveArguments,
  type QueryAnswer,
  stealArguments,
} from "./wire.ts";
import { CommandWindow } from "./command_window.ts";
import { failureOf, refusalOf } from "./failures.ts";
import { INBOX_CHANNEL_PREFIX, isOurs, type LockKeys, slotOf } from "./keys.ts";
import { ASK, LEAVE, QUERY, RENEW, type Script, STEAL } from "./scripts.ts";
import { type AskSent, ServerClocks } from "./server_clocks.ts";

/** How often a leave is sent until the search for the next waiters is over. Each looks at 64 of them. */
const MAX_SEARCHES = 1_024;

/** So many keys a `SCAN` looks at: it takes the server about a millisecond. */
const SCAN_KEYS = "1000";

export interface RedisCommandsOptions {
  readonly clock: Clock;
  readonly commandTimeoutMs: number;
  readonly unavailableAfterMs: number;
  readonly handoff: boolean;
  /** What disposal waits for: the rest of a search after a leave. */
  readonly background: Background;
  readonly warn: (message: string) => void;
}

/** What `PTTL` says of a key without a TTL. */
const NO_TTL = -1;

/** After warnings about so many keys no more follow: a program may have a name per order. */
const MAX_DATA_KEYS = 100;

/** A token as other libraries write it, redis-py without a TTL, too. */
const FOREIGN_TOKEN = /^[0-9a-f-]{20,}$/i;

/** Sends scripts within their window, and learns the server's clock. A run is one command, two after a NOSCRIPT. */
export class RedisCommands {
  readonly client: RedisClient;
  readonly clocks: ServerClocks;
  readonly #options: RedisCommandsOptions;
  /**
   * By node: one that does not answer must not take the slots of the others. An address that no node has any more
   * is kept: there are as many as the nodes of the cluster have had, a few hundred bytes each.
   */
  readonly #windows = new Map<string | undefined, CommandWindow>();
  #isMemoryChecked = false;
  /** The keys of which a warning says that they look like data. */
  readonly #dataKeys = new Set<string>();

  constructor(client: RedisClient, options: RedisCommandsOptions) {
    this.client = client;
    this.#options = options;
    this.clocks = new ServerClocks(client.cluster);
  }

  windowOf(lockKey: string): CommandWindow {
    const node = this.client.nodeOf?.(slotOf(lockKey));
    let window = this.#windows.get(node);
    if (window === undefined) {
      const { clock, unavailableAfterMs } = this.#options;
      window = new CommandWindow(clock, unavailableAfterMs);
      this.#windows.set(node, window);
    }
    return window;
  }

  /**
   * Sends an ask, or a steal. The caller has taken a slot in the window, and keeps it if the answer is "late". After
   * `lastMomentMs`, in ms of the server's clock, the ask does nothing; 0 for no limit.
   */
  ask(
    ask: Ask,
    window: CommandWindow,
    sent: AskSent,
    lastMomentMs: number,
  ): Promise<AskAnswer> {
    const { keys } = ask;
    const slot = { window, ask };
    const decode = (reply: unknown): AskAnswer => {
      const answer = decodeAsk(reply);
      this.clocks.learn(keys.lock, answer.serverMs, sent, this.#options.clock.now());
      if (!this.#isMemoryChecked) this.#checkMemory();
      const isForever = "leftMs" in answer && answer.leftMs === NO_TTL;
      if (ask.ticket === 0 && isForever) this.#checkHolder(keys);
      return answer;
    };
    return ask.mode === "steal"
      ? this.#send(STEAL, keys, stealArguments(ask, lastMomentMs), decode, slot)
      : this.#send(ASK, keys, askArguments(ask, lastMomentMs), decode, slot);
  }

  /** Whether the server has answered others since then. Unknown in a cluster, where another node may have. */
  answersOthersSince(sinceMs: number): boolean {
    return !this.client.cluster && this.windowOf("").answeredAtMs > sinceMs;
  }

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
  ): Promise<ReturnType<typeof decodeLeave>> {
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

  /** Sends a leave until the search for the next waiters is over. If it fails, a waiter's next ask continues it. */
  async #finishSearch(keys: LockKeys, args: string[]): Promise<void> {
    try {
      for (let i = 0; i < MAX_SEARCHES; i++) {
        const leave = await this.#send(LEAVE, keys, args, decodeLeave);
        if (!leave.isNotified) this.#warnOfPublish();
        if (!leave.isSearching) return;
      }
    } catch {
      // Nobody waits for it: the answer to the caller was that of the first leave.
    }
  }

  #warnOfPublish(): void {
    this.#options.warn(
      `Redis refuses to publish to "${INBOX_CHANNEL_PREFIX}*", so waiters poll. Check the user's ACL`,
    );
  }

  /** Reads the holder and the waiters. The server lists 64 waiters at most. */
  query(keys: LockKeys, maxWaiters: number, request?: LeaseRequest): Promise<QueryAnswer> {
    return this.#send(QUERY, keys, [String(maxWaiters)], decodeQuery, undefined, request);
  }

  async scan(
    { send }: Pick<RedisClient, "send">,
    cursor: string,
    pattern: string,
  ): Promise<ReturnType<typeof decodeScan>> {
    const args = [cursor, "MATCH", pattern, "COUNT", SCAN_KEYS, "TYPE", "string"];
    try {
      const replied = send("SCAN", args, "");
      if (this.client.reset !== undefined) this.#resetUnless(replied);
      return decodeScan(await replied);
    } catch (error) {
      throw failureOf(this.client, error);
    }
  }

  /**
   * Sends a script, and frees its slot when it is answered; if none was `taken`, it first takes one, or waits for it.
   * If the server does not know the script, its source is sent, but not for an ask that is no longer wanted. All
   * other scripts are wanted whatever happens.
   */
  #send<T>(
    script: Script,
    keys: LockKeys,
    args: string[],
    decode: (reply: unknown) => T | Promise<T>,
    taken?: { readonly window: CommandWindow; readonly ask?: Ask },
    request?: LeaseRequest,
  ): Promise<T> {
    const { lock, queue, waiters, token } = keys;
    const slot = taken ?? { window: this.windowOf(lock) };
    if (taken === undefined && !slot.window.take()) {
      const turn = slot.window.urgentTurn(request);
      return turn.then(() => this.#send(script, keys, args, decode, slot));
    }
    const all = [script.sha1, "4", lock, queue, waiters, token].concat(args);
    // An ask that came too late keeps its slot: it is sent again before later ones.
    const onReply = (reply: unknown) => {
      if (slot.ask === undefined || !isLate(reply)) slot.window.free(true);
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
      const isUnknown = refusalOf(error)?.code === "NOSCRIPT";
      if (!isUnknown || slot.ask?.isWanted === false) throw this.#onFailure(error, slot.window);
      return this.#sendCommand("EVAL", all.with(0, script.source), lock, slot.window).then(onReply);
    });
  }

  async #sendCommand(
    command: string,
    args: string[],
    key: string,
    window: CommandWindow,
  ): Promise<unknown> {
    try {
      const replied = this.client.send(command, args, key);
      if (this.client.reset !== undefined) this.#resetUnless(replied);
      return await replied;
    } catch (error) {
      throw this.#onFailure(error, window);
    }
  }

  /** Frees the slot. Returns the error without the command's arguments, or why the client is of no use. */
  #onFailure(error: unknown, window: CommandWindow): unknown {
    window.free(refusalOf(error) !== null);
    return failureOf(this.client, error);
  }

  /** Resets a client that would wait forever, unless there is a reply in time. */
  #resetUnless(replied: Promise<unknown>): void {
    const { clock, commandTimeoutMs } = this.#options;
    const cancel = clock.schedule(() => this.client.reset?.(), commandTimeoutMs);
    replied.then(cancel, cancel);
  }

  /** Warns, once per key, if the lock key looks like data: then nobody ever gets the lock. */
  async #checkHolder(keys: LockKeys): Promise<void> {
    const isSilent = () => this.#dataKeys.has(keys.lock) || this.#dataKeys.size >= MAX_DATA_KEYS;
    if (isSilent()) return;
    try {
      const { value, leftMs } = await this.query(keys, 0);
      if (value === null || leftMs !== NO_TTL || isOurs(value) || FOREIGN_TOKEN.test(value)) return;
    } catch {
      return; // the next call looks again
    }
    if (isSilent()) return;
    this.#dataKeys.add(keys.lock);
    const what = "is a string without a TTL that no known lock library has written. Nobody gets " +
      "the lock before it is deleted: if it is data, use another 'keyPrefix'";
    this.#options.warn(`The key of a lock, ${JSON.stringify(keys.lock)}, ${what}`);
  }

  async #checkMemory(): Promise<void> {
    this.#isMemoryChecked = true;
    const window = this.windowOf("");
    if (!window.take()) await window.urgentTurn();
    try {
      const info = await this.#sendCommand("INFO", ["memory"], "", window);
      window.free(true);
      const warning = evictionWarning(String(info));
      if (warning !== null) this.#options.warn(warning);
    } catch {
      // The user may lack the right to INFO. Locks work without this check.
    }
  }
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
