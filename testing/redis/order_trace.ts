/**
 * Who stood in the queue when somebody else was granted the lock, as the server itself tells: every
 * command that its scripts execute, in order (`MONITOR`).
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

/** A grant as the server made it. */
interface TracedGrant {
  readonly value: string;
  /** Those in the queue whose turn came before: nobody may be overtaken there. */
  readonly overtaken: readonly string[];
  /** Those who were passed over, or let a claim run out, and have not come back since. */
  readonly parked: ReadonlySet<string>;
}

/** How the grants of a run came in another order than first come, first served. */
export interface OrderReport {
  /** Grants that came late: somebody who was called after they waited was granted before. */
  readonly inversions: number;
  /** The same, one by one: who was overtaken, and by whom. */
  readonly pairs: number;
  /** Pairs of which the overtaken one was not parked at that moment. */
  readonly unexplained: readonly string[];
  /** How often a grant was made ahead of somebody in the queue with an earlier ticket. */
  readonly barged: number;
}

/** Watches one lock until it is disposed. */
export interface OrderTrace extends Disposable {
  /** Compares what waiters saw with what the server did. */
  report(grants: readonly Grant[]): Promise<OrderReport>;
}

/** Who waits, and who holds. */
const STANDING =
  "return {redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), redis.call('GET', KEYS[2])}";

/** Starts to watch. */
export async function traceOrder(server: RedisServer, name: string): Promise<OrderTrace> {
  const connection = await connectResp(server.url);
  await connection.command("MONITOR");
  const queue = new TracedQueue(lockKeys("lock:", name));
  // What it is at this very command; what was seen before is in it.
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
  reading.catch(() => {}); // the connection was closed
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

/** Asserts that nobody was overtaken but those who were parked; what to say of it. */
export async function explainOrder(trace: OrderTrace, grants: readonly Grant[]): Promise<string> {
  const { inversions: late, pairs, unexplained, barged } = await trace.report(grants);
  assertEquals(late, inversions(grants));
  assertEquals(barged, 0, "nobody in the queue was passed over without being parked");
  assertEquals(unexplained, [], "who was overtaken was parked");
  return `${grants.length} grants, ${late} out of order (${pairs} pairs), all parked`;
}

/** The queue of one lock, as the commands of the scripts make it. */
class TracedQueue {
  /** By token, in the order in which they were made. */
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
    // The arguments follow the script, the number of keys and four keys; the first is the owner value.
    if (key === LEAVE.sha1 && args[5] === this.#holder) this.#holder = "";
    else if (command === "SET" && key === token) this.#token = args[0]!;
    else if (command === "SET" && key === lock) this.#grant(args[0]!);
    else if (key !== queue) return;
    else if (command === "ZADD") this.#enter(args[1]!, Number(args[0]));
    else if (command === "ZREM") this.#leave(args[0]!);
    else if (command === "ZPOPMIN") this.#pop();
  }

  /** Who holds the lock already, and who waits: values and tickets, in turn. */
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

  /** The first one is taken out: to be granted the lock, else it is parked. */
  #pop(): void {
    let first: [value: string, ticket: number] | undefined;
    for (const entry of this.#queue) if (first === undefined || entry[1] < first[1]) first = entry;
    if (first === undefined) return;
    this.#queue.delete(first[0]);
    this.#parked.add(first[0]);
  }

  #grant(value: string): void {
    // One that let its claim run out did not leave: it may come back.
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
