/**
 * Reconstructs the queue at each grant from `MONITOR`, which reports every command that the scripts
 * execute, in order. So a test can tell a waiter that was overtaken from one that was parked.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { type LockKeys, lockKeys } from "../../redis/protocol/keys.ts";
import { LEAVE } from "../../redis/protocol/scripts.ts";
import type { RedisServer } from "../servers/redis.ts";
import { connectResp } from "../servers/resp.ts";
import { waitUntil } from "../servers/wait.ts";
import { type Grant, inversions } from "../processes/workers.ts";

/** A grant, and the queue at that moment. */
interface TracedGrant {
  readonly value: string;
  /** Waiters in the queue with an earlier ticket: there must be none. */
  readonly overtaken: readonly string[];
  /** Waiters that were skipped, or let a claim expire, and have not returned since. */
  readonly parked: ReadonlySet<string>;
}

/** How the grants of a run differ from first in, first out. */
export interface OrderReport {
  /** Late grants: a call that began when they already waited was granted before them. */
  readonly inversions: number;
  /** Pairs of a late grant and a grant that overtook it. */
  readonly pairs: number;
  /** Pairs in which the overtaken waiter was not parked at that moment. */
  readonly unexplained: readonly string[];
  /** How often a grant was made ahead of a queued waiter with an earlier ticket. */
  readonly barged: number;
}

/** Watches one lock until it is disposed. */
export interface OrderTrace extends Disposable {
  /** Compares the grants that waiters saw with the server's queue. */
  report(grants: readonly Grant[]): Promise<OrderReport>;
}

/** Reads the queue with tickets, and the holder. */
const STANDING =
  "return {redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), redis.call('GET', KEYS[2])}";

/** Starts to watch a lock. */
export async function traceOrder(server: RedisServer, name: string): Promise<OrderTrace> {
  const connection = await connectResp(server.url);
  await connection.command("MONITOR");
  const queue = new TracedQueue(lockKeys("lock:", name));
  // The state at this very command. Commands that MONITOR reported before it are part of that state.
  const begin = crypto.randomUUID();
  const keys = lockKeys("lock:", name);
  const [standing, holder] = await server.command(
    "EVAL",
    STANDING,
    2,
    keys.queue,
    keys.lock,
    begin,
  ) as [
    string[],
    string?,
  ];
  queue.begin(holder ?? "", standing);
  let isLive = false;
  let seen = "";
  const reading = (async () => {
    for (;;) {
      const line = String(await connection.next());
      const words = [...line.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, word]) => word!);
      if (words[0]?.toUpperCase() === "ECHO") seen = words[1]!;
      else if (isLive) queue.execute(words);
      else isLive = words.at(-1) === begin;
    }
  })();
  reading.catch(() => {}); // disposal closes the connection
  return {
    async report(grants) {
      const mark = crypto.randomUUID();
      await server.command("ECHO", mark);
      await waitUntil("all is read", () => seen === mark);
      return compare(grants, queue.grants);
    },
    [Symbol.dispose]: () => connection[Symbol.dispose](),
  };
}

/** Asserts that only parked waiters were overtaken. Returns a line for the log. */
export async function explainOrder(trace: OrderTrace, grants: readonly Grant[]): Promise<string> {
  const { inversions: late, pairs, unexplained, barged } = await trace.report(grants);
  assertEquals(late, inversions(grants));
  assertEquals(barged, 0, "no queued waiter was overtaken");
  assertEquals(unexplained, [], "each overtaken waiter was parked");
  return `${grants.length} grants, ${late} out of order (${pairs} pairs), all parked`;
}

/** The queue of one lock, reconstructed from the commands of the scripts. */
class TracedQueue {
  /** By token, in the order of the grants. */
  readonly grants = new Map<string, TracedGrant>();
  readonly #keys: LockKeys;
  readonly #queue = new Map<string, number>();
  readonly #tickets = new Map<string, number>();
  readonly #parked = new Set<string>();
  #holder = "";
  #token = "";

  constructor(keys: LockKeys) {
    this.#keys = keys;
  }

  execute([command, key, ...args]: readonly string[]): void {
    const { lock, queue, token } = this.#keys;
    // EVALSHA: the hash, the number of keys, four keys, then the owner value.
    if (key === LEAVE.sha1 && args[5] === this.#holder) this.#holder = "";
    else if (command === "SET" && key === token) this.#token = args[0]!;
    else if (command === "SET" && key === lock) this.#grant(args[0]!);
    else if (key !== queue) return;
    else if (command === "ZADD") this.#enter(args[1]!, Number(args[0]));
    else if (command === "ZREM") this.#leave(args[0]!);
    else if (command === "ZPOPMIN") this.#pop();
  }

  /** Sets the first state: the holder, and the waiters as values and tickets in turn. */
  begin(holder: string, list: readonly string[]): void {
    this.#holder = holder;
    for (let i = 0; i < list.length; i += 2) this.#enter(list[i]!, Number(list[i + 1]));
  }

  #enter(value: string, ticket: number): void {
    this.#queue.set(value, ticket);
    this.#tickets.set(value, ticket);
    this.#parked.delete(value);
  }

  #leave(value: string): void {
    this.#queue.delete(value);
    this.#parked.delete(value);
  }

  /** Removes the first waiter. It counts as parked unless a grant follows. */
  #pop(): void {
    let first: [value: string, ticket: number] | undefined;
    for (const entry of this.#queue) if (first === undefined || entry[1] < first[1]) first = entry;
    if (first === undefined) return;
    this.#queue.delete(first[0]);
    this.#parked.add(first[0]);
  }

  #grant(value: string): void {
    // A holder that let its claim expire has not left: it may return.
    if (this.#holder !== "" && this.#holder !== value) this.#parked.add(this.#holder);
    this.#holder = value;
    this.#leave(value);
    const ticket = this.#tickets.get(value) ?? Infinity;
    const earlier = [...this.#queue].filter(([, other]) => other < ticket);
    this.grants.set(this.#token, {
      value,
      overtaken: earlier.map(([other]) => other),
      parked: new Set(this.#parked),
    });
  }
}

function compare(
  grants: readonly Grant[],
  traced: ReadonlyMap<string, TracedGrant>,
): OrderReport {
  const inOrder = [...grants].sort((a, b) => BigInt(a.token) < BigInt(b.token) ? -1 : 1);
  const latestCallUs: number[] = [];
  const unexplained: string[] = [];
  let late = 0;
  let pairs = 0;
  for (const [i, grant] of inOrder.entries()) {
    const queuedUs = grant.queuedUs ?? Infinity;
    const before = pairs;
    for (let j = i - 1; j >= 0 && latestCallUs[j]! > queuedUs; j--) {
      const { calledUs, token } = inOrder[j]!;
      if (calledUs <= queuedUs) continue;
      pairs++;
      const value = traced.get(grant.token)?.value;
      if (value !== undefined && traced.get(token)?.parked.has(value)) continue;
      unexplained.push(`${value} was overtaken by ${traced.get(token)?.value}`);
    }
    if (pairs > before) late++;
    latestCallUs.push(Math.max(latestCallUs.at(-1) ?? -Infinity, grant.calledUs));
  }
  const barged = [...traced.values()].reduce((sum, { overtaken }) => sum + overtaken.length, 0);
  return { inversions: late, pairs, unexplained, barged };
}
