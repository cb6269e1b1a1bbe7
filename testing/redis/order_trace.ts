/**
 * Reconstructs the queue at each grant from `MONITOR`, which reports every command that the scripts
 * execute, in order. So a test can tell a waiter that was overtaken from one that was parked.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { assertEquals } from "@std/assert";
import { type LockKeys, lockKeys } from "../../redis/protocol/keys.ts";
import { LEAVE } from "../../redis/protocol/scripts.ts";
import type { RedisServer } from "../servers/redis.ts";
import { connectResp } from "../servers/resp.ts";
import { waitUntil } from "../servers/wait.ts";
import { type QueueMember, readMember } from "./queue_reader.ts";
import { type Grant, inversions } from "../processes/workers.ts";

/** A grant, and the queue at that moment. */
interface TracedGrant {
  readonly value: string;
  /** Waiters with an earlier ticket that were not passed over: there must be none. */
  readonly overtaken: readonly string[];
  /** Waiters that were passed over, or let a claim expire and have not returned since. */
  readonly parked: ReadonlySet<string>;
}

/** How the grants of a run differ from first in, first out. */
export interface OrderReport {
  /** Late grants: a call that began when they already waited was granted before them. */
  readonly inversions: number;
  /** Pairs of a late grant and a grant that overtook it. */
  readonly pairs: number;
  /** Pairs in which the overtaken waiter was not passed over at that moment. */
  readonly unexplained: readonly string[];
  /** How often a grant was made ahead of a queued waiter with an earlier ticket. */
  readonly barged: number;
}

/** Watches one lock until it is disposed. */
export interface OrderTrace extends Disposable {
  /** Compares the grants that waiters saw with the server's queue. */
  report(grants: readonly Grant[]): Promise<OrderReport>;
}

/** Reads the queue, and the holder. */
const STANDING = "return {redis.call('ZRANGE', KEYS[1], 0, -1), redis.call('GET', KEYS[2])}";

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
      const words = [...line.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, word]) => unescaped(word!));
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
  assertEquals(unexplained, [], "each overtaken waiter was passed over");
  return `${grants.length} grants, ${late} out of order (${pairs} pairs), all of them passed over`;
}

/** The queue of one lock, reconstructed from the commands of the scripts. */
class TracedQueue {
  /** By token, in the order of the grants. */
  readonly grants = new Map<string, TracedGrant>();
  readonly #keys: LockKeys;
  /** The waiters with a place, those of parked inboxes too. */
  readonly #queue = new Map<string, number>();
  readonly #tickets = new Map<string, number>();
  readonly #inboxes = new Map<string, string>();
  /** The inboxes that are passed over, with the numbers in their members. */
  readonly #parked = new Map<string, number>();
  readonly #unheard = new Map<string, number>();
  /** Waiters without a place that may return: a claim of theirs expired, or they were swept. */
  readonly #away = new Set<string>();
  /** Whether the script has removed a waiter of an unheard inbox: no other inbox is heard then. */
  #wasUnheard = false;
  #holder = "";
  #token = "";

  constructor(keys: LockKeys) {
    this.#keys = keys;
  }

  execute([command, key, ...args]: readonly string[]): void {
    const { lock, queue, token } = this.#keys;
    if (command === "EVALSHA" || command === "EVAL") this.#wasUnheard = false;
    // EVALSHA: the hash, the number of keys, four keys, then the owner value.
    if (key === LEAVE.sha1 && args[5] === this.#holder) this.#holder = "";
    else if (command === "SET" && key === token) this.#token = args[0]!;
    else if (command === "SET" && key === lock) this.#grant(args[0]!);
    else if (key === queue) this.#change(command!, args);
  }

  /** Sets the first state: the holder, and the members of the queue. */
  begin(holder: string, members: readonly string[]): void {
    this.#holder = holder;
    for (const member of members) this.#add(readMember(member));
  }

  #change(command: string, args: readonly string[]): void {
    const members = () => args.map(readMember);
    // ZADD: the score before each member is always 0.
    if (command === "ZADD") args.forEach((arg, i) => i % 2 === 1 && this.#add(readMember(arg)));
    else if (command === "ZREM") members().forEach((member) => this.#remove(member));
    else if (/^ZREMRANGE|^ZPOP/.test(command)) throw new Error(`Cannot trace ${command}`);
  }

  #add(member: QueueMember): void {
    if (member.kind === "by_ticket") this.#enter(member);
    if (member.kind === "by_inbox") this.#inboxes.set(member.value, member.inbox);
    if (member.kind === "parked") this.#parked.set(member.inbox, member.untilMs);
    if (member.kind === "unheard") this.#unheard.set(member.inbox, member.ticket);
  }

  #remove(member: QueueMember): void {
    if (member.kind === "by_ticket") this.#leave(member.value);
    if (member.kind === "parked") forget(this.#parked, member.inbox, member.untilMs);
    if (member.kind === "unheard") forget(this.#unheard, member.inbox, member.ticket);
  }

  #enter({ value, ticket }: { value: string; ticket: number }): void {
    this.#queue.set(value, ticket);
    this.#tickets.set(value, ticket);
    this.#away.delete(value);
  }

  #leave(value: string): void {
    const inbox = this.#inboxes.get(value)!;
    this.#wasUnheard = this.#unheard.has(inbox);
    this.#queue.delete(value);
    this.#away.delete(value);
    if (this.#parked.has(inbox)) this.#away.add(value);
  }

  #grant(value: string): void {
    // A holder that let its claim expire has not left: it may return.
    if (this.#holder !== "" && this.#holder !== value) this.#away.add(this.#holder);
    this.#holder = value;
    this.#queue.delete(value);
    this.#away.delete(value);
    const ticket = this.#tickets.get(value) ?? Infinity;
    const queued = [...this.#queue.keys()];
    const passedOver = new Set(queued.filter((other) => {
      const inbox = this.#inboxes.get(other)!;
      return this.#parked.has(inbox) || (!this.#wasUnheard && this.#unheard.has(inbox));
    }));
    this.grants.set(this.#token, {
      value,
      overtaken: queued.filter((other) =>
        this.#queue.get(other)! < ticket && !passedOver.has(other)
      ),
      parked: passedOver.union(this.#away),
    });
  }
}

/** Forgets a member, unless a newer one of the inbox has replaced it. */
function forget(members: Map<string, number>, inbox: string, number: number): void {
  if (members.get(inbox) === number) members.delete(inbox);
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

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t", a: "\x07", b: "\b" };

/** A word as it was sent: `MONITOR` escapes all bytes but printable ASCII. */
function unescaped(word: string): string {
  const bytes = word.replaceAll(/\\(?:x(..)|(.))/g, (_, hex, char) => {
    return hex ? String.fromCharCode(parseInt(hex, 16)) : ESCAPES[char] ?? char;
  });
  return Buffer.from(bytes, "latin1").toString();
}
