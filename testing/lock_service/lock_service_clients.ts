/**
 * Clients of a lock service that send random requests, and a checker of the answers they received.
 *
 * @module
 */
import { type Answer, call } from "./lock_service.ts";

/** A time in which a client could believe that it held the lock, in ms of one clock. */
export interface Hold {
  /** The principal and the id, since principals share ids. */
  readonly id: string;
  fromMs: number;
  untilMs: number;
}

/** A token that a client received. */
export interface ReceivedToken {
  readonly id: string;
  readonly sentMs: number;
  readonly receivedMs: number;
  readonly token: bigint;
}

/** The records of all clients. */
export interface Seen {
  readonly holds: Hold[];
  readonly tokens: ReceivedToken[];
  /** Holds that ended early: the client got a 404 although its lease had not expired. */
  readonly lost: Hold[];
  /** The number of answers per status; status 0 counts requests without an answer. */
  readonly statuses: Map<number, number>;
}

/** The options of a client. */
export interface ClientOptions {
  /** The servers that run now. */
  readonly urls: () => readonly string[];
  readonly key: string;
  /** The principal. */
  readonly as: string;
  readonly name: string;
  readonly random: () => number;
  /** Returns whether to do another round. */
  readonly goesOn: () => boolean;
  readonly seen: Seen;
}

/** One client: acquires, renews, releases, repeats requests, times out and abandons leases, at random. */
export async function runClient(options: ClientOptions): Promise<void> {
  const { urls, key, as, name, random, goesOn, seen } = options;
  const below = (n: number) => Math.floor(random() * n);
  let id = `${name}.0`;
  let hold: Hold | null = null;
  const ask = async (method: string, body: unknown, limitMs: number): Promise<Answer | null> => {
    const url = urls()[below(urls().length)]!;
    const signal = AbortSignal.timeout(limitMs);
    const sentMs = performance.now();
    // From now on somebody else may hold the lock.
    if (method === "DELETE" && hold !== null) hold.untilMs = Math.min(hold.untilMs, sentMs);
    const answer = await call(url, method, `/lock/${key}/${id}`, { as, body, signal })
      .catch(() => null);
    const owner = `${as}:${id}`;
    const receivedMs = performance.now();
    const status = answer?.status ?? 0;
    seen.statuses.set(status, (seen.statuses.get(status) ?? 0) + 1);
    if (status === 404 && hold !== null && receivedMs < hold.untilMs) seen.lost.push(hold);
    if (status === 200 && method !== "DELETE") {
      seen.tokens.push({ id: owner, sentMs, receivedMs, token: BigInt(answer!.body.fencingToken) });
      // If the previous hold is over, a new one begins when the answer arrives.
      if (hold === null || hold.untilMs < receivedMs) {
        seen.holds.push(hold = { id: owner, fromMs: receivedMs, untilMs: 0 });
      }
      hold.untilMs = Math.max(hold.untilMs, sentMs + answer!.body.remainingMs);
    }
    return answer;
  };
  /** A holder looks at locks while it holds. */
  const look = async (times: number) => {
    for (; times > 0; times--) {
      const url = urls()[below(urls().length)]!;
      await call(url, "GET", `/lock/${key}`, { as }).catch(() => {});
    }
  };
  for (let round = 1; goesOn(); round++) {
    const isImpatient = below(6) === 0;
    const put = { ttlMs: 150 + below(600), waitMs: below(2) * (50 + below(400)) };
    let isOpen = false;
    const taken = await ask("PUT", put, isImpatient ? 1 + below(100) : 30_000);
    if (taken?.status === 200) {
      for (let renewals = below(4); renewals > 0; renewals--) {
        await look(below(6));
        const method = below(4) === 0 ? "PUT" : "PATCH";
        const renewed = await ask(method, { ttlMs: 150 + below(400) }, 30_000);
        if (renewed?.status === 404) break;
      }
      await look(below(4));
      // Sometimes the client never releases, and sometimes it releases twice.
      for (let releases = below(5) % 3; releases > 0; releases--) {
        isOpen ||= (await ask("DELETE", "", 30_000)) === null;
      }
    }
    // A DELETE without an answer may be executed at any time: it must not release a later lease.
    if (below(3) === 0 || isOpen || taken === null) [id, hold] = [`${name}.${round}`, null];
  }
}

/** Returns the violations: two holders at once, lost holds, tokens that go back or serve two owners. */
export function faultsOf({ holds, tokens, lost }: Seen): string[] {
  const faults = lost.map(({ id, untilMs }) => `${id} has lost what it held until ${untilMs}`);
  const sorted = holds.filter(({ fromMs, untilMs }) => untilMs > fromMs)
    .sort((a, b) => a.fromMs - b.fromMs);
  let last: Hold | null = null;
  for (const hold of sorted) {
    if (last !== null && last.id !== hold.id && hold.fromMs < last.untilMs) {
      faults.push(`${last.id} held until ${last.untilMs}, ${hold.id} from ${hold.fromMs}`);
    }
    if (last === null || hold.untilMs > last.untilMs) last = hold;
  }
  for (const one of tokens) {
    for (const two of tokens) {
      if (two.sentMs < one.receivedMs) continue;
      if (two.token < one.token || (two.token === one.token && two.id !== one.id)) {
        faults.push(`${two.id} received ${two.token} after ${one.id} received ${one.token}`);
      }
    }
  }
  return faults;
}
