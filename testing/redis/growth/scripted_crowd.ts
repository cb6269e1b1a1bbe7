/**
 * A lock with many waiters, made by calling the scripts as their processes would. The test sets the
 * time that the scripts see, so a lease of an inbox ends without a wait.
 *
 * @module
 */
import {
  askArguments,
  GRANTED,
  leaveArguments,
  QUEUED,
  SEARCHING,
} from "../../../redis/protocol/wire.ts";
import { INBOX_CHANNEL_PREFIX, lockKeys } from "../../../redis/protocol/keys.ts";
import { ASK, LEAVE, type Script } from "../../../redis/protocol/scripts.ts";
import type { RedisServer } from "../../servers/redis.ts";
import { connectResp, type RespConnection } from "../../servers/resp.ts";
import { waitUntil } from "../../servers/wait.ts";
import { countingScriptAt, scriptAt } from "./timed_script.ts";

/** Far longer than a test takes, in ms. */
const TTL_MS = 600_000;
/** How many commands are sent at once. */
const BATCH = 500;

const NONCE = "0".repeat(16);

/** One execution of a script. */
export interface ScriptCall {
  readonly script: Script;
  readonly args: readonly (string | number)[];
}

/** A waiter in the queue. */
export interface CrowdWaiter {
  readonly owner: string;
  readonly inbox: string;
  readonly ticket: number;
}

/** How many waiters, in how many processes. */
export interface CrowdSize {
  readonly waiters: number;
  readonly inboxes: number;
  /** With how many others each may share the lock; exclusive by default. */
  readonly limit?: number;
}

/** An owner id as long as the library makes them. */
export function ownerOf(name: string, number = 0): string {
  return name.padEnd(28, "-") + String(number).padStart(8, "0");
}

/** The whole owner value. */
export function valueOf(owner: string): string {
  return `${owner}#${NONCE}`;
}

/** An ask of a process that listens, in mode "wait" unless another is given. */
export function askOf(
  owner: string,
  { inbox = "nowhere", ticket = 0, kind = "wait", limit = null }: {
    inbox?: string;
    ticket?: number;
    kind?: "wait" | "try" | "attach";
    limit?: number | null;
  },
): ScriptCall {
  const sender = { id: inbox, isCountable: true };
  const terms = { value: valueOf(owner), ttlMs: TTL_MS, mode: kind, limit };
  return { script: ASK, args: askArguments({ ...terms, inbox: sender, ticket }, 0) };
}

/** A release, or the end of a wait. */
export function leaveOf(owner: string, { handoff = true, tombstoneMs = 0 } = {}): ScriptCall {
  return { script: LEAVE, args: leaveArguments(valueOf(owner), tombstoneMs, handoff, false) };
}

/** Whether a script has ended its search for the next waiter; otherwise it must be called again. */
export function isFinished({ script }: ScriptCall, reply: unknown): boolean {
  const items = reply as unknown[];
  if (script === LEAVE) return items[2] !== SEARCHING;
  return script !== ASK || items[0] !== SEARCHING;
}

/** A lock that is held, with a queue. */
export class Crowd implements AsyncDisposable {
  readonly size: CrowdSize;
  readonly holder: string = ownerOf("holder");
  readonly keys: string[];
  /** In the order of their tickets. */
  waiters: readonly CrowdWaiter[] = [];
  readonly #server: RedisServer;
  readonly #startUs = Date.now() * 1_000;
  /** Of the scripts at the times for which the server knows them. */
  readonly #digests = new Map<string, Promise<string>>();
  #laterUs = 0;
  #subscriber: RespConnection | null = null;

  private constructor(server: RedisServer, size: CrowdSize) {
    this.#server = server;
    this.size = size;
    const { lock, queue, waiters, token } = lockKeys("lock:", crypto.randomUUID());
    this.keys = [lock, queue, waiters, token];
  }

  /** Lines up the waiters: their inboxes are subscribed, and one of them after the other asks. */
  static async open(server: RedisServer, size: CrowdSize): Promise<Crowd> {
    const crowd = new Crowd(server, size);
    await crowd.listen(crowd.inboxes);
    const [state] = await crowd.run(askOf(crowd.holder, { inbox: "holder" })) as number[];
    if (state !== GRANTED) throw new Error(`The lock is not free: ${state}`);
    const calls = Array.from({ length: size.waiters }, (_, i) => {
      return askOf(ownerOf("waiter", i), { inbox: crowd.#inboxOf(i), limit: size.limit ?? null });
    });
    const replies = await crowd.runAll(calls) as number[][];
    crowd.waiters = replies.map(([state, , , ticket], i) => {
      if (state !== QUEUED) throw new Error(`Not queued: ${replies[i]}`);
      return { owner: ownerOf("waiter", i), inbox: crowd.#inboxOf(i), ticket: ticket! };
    });
    await crowd.save();
    return crowd;
  }

  /** The ids of the inboxes. */
  get inboxes(): string[] {
    return Array.from({ length: this.size.inboxes }, (_, i) => this.#inboxOf(i));
  }

  /** The waiter at this part of the queue: 0 is the first, 1 the last. */
  at(part: number): CrowdWaiter {
    return this.waiters[Math.round(part * (this.waiters.length - 1))]!;
  }

  /** Sets the time that scripts see, in ms since the waiters lined up. */
  setTime(laterMs: number): void {
    this.#laterUs = laterMs * 1_000;
  }

  /** Subscribes to these inboxes, and to no others. */
  async listen(inboxes: readonly string[]): Promise<void> {
    this.#subscriber?.[Symbol.dispose]();
    await waitUntil("nobody listens", async () => {
      return (await this.#server.command("PUBSUB", "CHANNELS") as string[]).length === 0;
    });
    if (inboxes.length === 0) return;
    const subscriber = this.#subscriber = await connectResp(this.#server.url);
    const channels = inboxes.map((inbox) => `${INBOX_CHANNEL_PREFIX}${inbox}`);
    await subscriber.command("SUBSCRIBE", ...channels);
    await waitUntil("all are subscribed", async () => {
      const open = await this.#server.command("PUBSUB", "CHANNELS") as string[];
      return open.length === channels.length;
    });
  }

  /** Runs a script once, and returns its reply. */
  async run(call: ScriptCall): Promise<unknown> {
    return await this.#server.command(...await this.#commandOf(call));
  }

  /** Runs a script until its search for the next waiter has ended. */
  async runToEnd(call: ScriptCall): Promise<void> {
    while (!isFinished(call, await this.run(call)));
  }

  /** Runs scripts once each, in this order. */
  async runAll(calls: readonly ScriptCall[]): Promise<unknown[]> {
    using connection = await connectResp(this.#server.url);
    const replies: unknown[] = [];
    for (let i = 0; i < calls.length; i += BATCH) {
      const batch = calls.slice(i, i + BATCH).map((call) => this.#commandOf(call));
      replies.push(...await connection.pipeline(await Promise.all(batch)));
    }
    for (const reply of replies) if (reply instanceof Error) throw reply;
    return replies;
  }

  /** Runs a script once. Returns its reply, and how many items its commands replied. */
  async count({ script, args }: ScriptCall): Promise<{ reply: unknown; items: number }> {
    const source = countingScriptAt(script, this.#nowUs);
    const [reply, items] = await this.#server.command("EVAL", source, 4, ...this.keys, ...args) as [
      unknown,
      number,
    ];
    return { reply, items };
  }

  /** Deletes the key of the lock: stands for its expiry. */
  async expire(): Promise<void> {
    await this.#server.command("DEL", this.keys[0]!);
  }

  /** Remembers the state of the keys. */
  async save(): Promise<void> {
    for (const key of this.keys) await this.#copy(key, `saved:${key}`);
  }

  /** Returns the keys to the state of the last {@linkcode save}. */
  async restore(): Promise<void> {
    for (const key of this.keys) await this.#copy(`saved:${key}`, key);
  }

  /** Ends the subscriptions, and removes all keys and scripts from the server. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#subscriber?.[Symbol.dispose]();
    await this.#server.command("FLUSHALL");
    await this.#server.command("SCRIPT", "FLUSH");
  }

  get #nowUs(): number {
    return this.#startUs + this.#laterUs;
  }

  #inboxOf(waiter: number): string {
    return ownerOf("inbox", waiter % this.size.inboxes);
  }

  /** The copy outlives the test. */
  async #commandOf({ script, args }: ScriptCall): Promise<(string | number)[]> {
    const name = `${script.sha1} ${this.#nowUs}`;
    let digest = this.#digests.get(name);
    if (digest === undefined) {
      digest = this.#server.command("SCRIPT", "LOAD", scriptAt(script, this.#nowUs)).then(String);
      this.#digests.set(name, digest);
    }
    return ["EVALSHA", await digest, 4, ...this.keys, ...args];
  }

  async #copy(from: string, to: string): Promise<void> {
    const { command } = this.#server;
    if (await command("COPY", from, to, "REPLACE") === 0) await command("DEL", to);
    else await command("PEXPIRE", to, TTL_MS);
  }
}
