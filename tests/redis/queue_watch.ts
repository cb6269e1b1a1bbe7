/**
 * What becomes of a queue on the server, step by step, as MONITOR tells it.
 *
 * @module
 */
import type { LockKeys } from "../../redis/keys.ts";
import type { Grant } from "../processes/workers.ts";
import { connectResp } from "../servers/resp.ts";

/** A grant on the server. */
interface Granted {
  readonly value: string;
  readonly token: string;
  /** Who waited in the queue at that moment: those who are parked do not. */
  readonly queued: ReadonlySet<string>;
}

/** The queue of one lock. */
export interface QueueWatch extends AsyncDisposable {
  readonly grants: readonly Granted[];
  /** How often a waiter was taken out of the queue without a grant, for its inbox was out of reach. */
  readonly parkings: number;
}

/** Follows the queue of a lock from now on. */
export async function watchQueue(url: string, keys: LockKeys): Promise<QueueWatch> {
  const connection = await connectResp(url);
  await connection.command("MONITOR");
  const follower = new Follower(keys);
  const reading = (async () => {
    for (;;) follower.read(String(await connection.next()));
  })().catch(() => {}); // it ends with the connection
  return {
    grants: follower.grants,
    get parkings() {
      return follower.parkings;
    },
    async [Symbol.asyncDispose]() {
      connection[Symbol.dispose]();
      await reading;
    },
  };
}

/** Does on a copy of the queue what the scripts do. */
class Follower {
  readonly grants: Granted[] = [];
  parkings = 0;
  readonly #keys: LockKeys;
  readonly #tickets = new Map<string, number>();
  #popped: string | null = null;
  #token = "";

  constructor(keys: LockKeys) {
    this.#keys = keys;
  }

  /** Takes a line like `1795.123 [0 lua] "ZADD" "key" "1" "value"`. */
  read(line: string): void {
    const [, words = ""] = /^\S+ \[\d+ lua\] (.*)$/.exec(line) ?? [];
    const [command, key, ...args]: string[] = words === "" ? [] : JSON.parse(
      `[${words.replaceAll(/" "/g, '","')}]`,
    );
    if (key === this.#keys.waiting) this.#step(command!, args);
    else if (key === this.#keys.fence && command === "SET") this.#token = args[0]!;
    else if (key === this.#keys.lock && command === "SET") this.#grant(args[0]!);
  }

  #step(command: string, args: string[]): void {
    if (command === "ZADD") this.#tickets.set(args[1]!, Number(args[0]));
    else if (command === "ZREM") this.#tickets.delete(args[0]!);
    else if (command === "ZPOPMIN") {
      this.#park();
      let first: [string, number] | undefined;
      for (const entry of this.#tickets) {
        if (first === undefined || entry[1] < first[1]) first = entry;
      }
      if (first !== undefined) this.#tickets.delete(first[0]);
      this.#popped = first?.[0] ?? null;
    }
  }

  #grant(value: string): void {
    if (this.#popped === value) this.#popped = null;
    this.#park();
    this.grants.push({ value, token: this.#token, queued: new Set(this.#tickets.keys()) });
  }

  /** One that was taken out and not granted is parked. */
  #park(): void {
    if (this.#popped !== null) this.parkings++;
    this.#popped = null;
  }
}

/** Grants that passed over somebody who had been told of an earlier place. */
export interface PassedOver {
  /** All of them. */
  readonly count: number;
  /** Those whose victim was in the queue at that moment: there must be none. */
  readonly inQueue: number;
}

/** Compares what callers saw with what the server did: whom was somebody granted ahead of? */
export function passedOver(seen: readonly Grant[], served: readonly Granted[]): PassedOver {
  const byToken = new Map(served.map((grant) => [grant.token, grant]));
  const inOrder = [...seen].sort((a, b) => BigInt(a.token) < BigInt(b.token) ? -1 : 1);
  let count = 0;
  let inQueue = 0;
  for (const [i, { token, queuedUs }] of inOrder.entries()) {
    if (queuedUs === null || queuedUs === Infinity) continue;
    const { value } = byToken.get(token)!;
    for (const ahead of inOrder.slice(0, i)) {
      if (ahead.calledUs <= queuedUs) continue;
      count++;
      if (byToken.get(ahead.token)!.queued.has(value)) inQueue++;
    }
  }
  return { count, inQueue };
}
