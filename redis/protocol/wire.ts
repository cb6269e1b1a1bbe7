/**
 * What the scripts take and reply, as their headers say: the arguments in `ARGV`, and the decoders of the replies.
 *
 * @module
 */
import type { LockMode } from "../../core/contract/distributed_lock.ts";
import type { ReleaseAnswer, RenewAnswer } from "../../core/lease/grant.ts";
import type { LockKeys } from "./keys.ts";

/** How long in ms after it was sent the server executes an ask. A later copy of it does nothing. */
export const ASK_LIFE_MS = 1_000;
/** How long in ms a tombstone refuses earlier asks. An ask that has a last moment is not executed later than that. */
export const TOMBSTONE_MS: number = 2 * ASK_LIFE_MS;
/** Longest claim in ms: how long a grant from the queue lasts unless the waiter confirms it. */
export const MAX_CLAIM_MS = 3_000;

/** Mode of an ask: wait in the queue. */
export const MODE_WAIT = "wait";
/** Mode of an ask: extend a lock that the owner id holds already. */
export const MODE_ATTACH = "attach";
/** The limit of an ask for a share of the lock beside any number of others. */
export const NO_LIMIT = 0;
/** In an ask: `PUBSUB NUMSUB` counts the subscribers of its inbox. */
export const COUNTABLE = "1";
/** In a leave: the next waiter becomes the holder. */
export const HANDOFF = "handoff";
/** In a leave: the next waiter is notified that the lock is free. */
export const FREE = "free";
/** In a leave: a lock that the caller holds stays held. */
export const KEEP = "keep";

export interface Ask {
  readonly keys: LockKeys;
  readonly value: string;
  readonly ttlMs: number;
  /** How it asks for the lock: a mode of `ask.lua`, or by `steal.lua`. */
  readonly mode: typeof MODE_WAIT | "try" | typeof MODE_ATTACH | "steal";
  /** How many may share the lock, {@linkcode NO_LIMIT} for any number; `null` for an exclusive lease. */
  readonly limit: number | null;
  /** Of a steal: the SHA-1 in hex of the owner value from which the lock is taken. */
  readonly victimDigest: string;
  /** The inbox that gets the grant message, and whether `PUBSUB NUMSUB` counts its subscriber. */
  readonly inbox: { readonly id: string; readonly isCountable: boolean };
  /** The ticket of the first answer; 0 before that. */
  readonly ticket: number;
  readonly isWanted: boolean;
}

/** The arguments of `ask.lua`. After `notAfterMs` of the server's clock it does nothing; 0 for no limit. */
export function askArguments(
  { value, ttlMs, mode, limit, inbox, ticket }: Omit<Ask, "keys" | "victimDigest" | "isWanted">,
  notAfterMs: number,
): string[] {
  const address = `${inbox.id} ${inbox.isCountable ? COUNTABLE : "0"} ${ticket}`;
  const args = [value, String(ttlMs), String(notAfterMs), mode, address];
  if (limit !== null) args.push(String(limit));
  return args;
}

export function stealArguments(
  { value, ttlMs, victimDigest }: Pick<Ask, "value" | "ttlMs" | "victimDigest">,
  notAfterMs: number,
): string[] {
  return [value, String(ttlMs), String(notAfterMs), victimDigest];
}

/** The arguments of `leave.lua`. From now on asks of this value are refused for `tombstoneMs`; 0 for not at all. */
export function leaveArguments(
  value: string,
  tombstoneMs: number,
  handoff: boolean,
  keepsLock: boolean,
): string[] {
  const args = [value, String(tombstoneMs), handoff ? HANDOFF : FREE];
  if (keepsLock) args.push(KEEP);
  return args;
}

/** First item of a reply to an ask or a steal: the caller holds the lock. */
export const GRANTED = 1;
/** The same: the caller is in the queue. */
export const QUEUED = 2;
/** The same: another owner holds the lock; in answer to an attach also if it is free. */
export const HELD = 0;
/** The same: the request arrived after its time limit, and did nothing. */
export const TOO_LATE = -1;
/** The same: a tombstone refuses the owner value. */
export const OWNER_HAS_LEFT = -2;

/** The same, and third item of a reply to a leave: the search for the next waiter is not over. */
export const SEARCHING = 3;

/** First item of a reply to a renewal or a leave: the caller held the lock, and it is done. */
export const DONE = 1;
/** The same: nobody held the lock. */
export const GONE = 0;
/** The same: another owner held the lock. */
export const OTHER_OWNER = -1;

/** Second item of a reply to a leave: the next waiter was notified, or there was none. */
export const NOTIFIED = 1;
/** Fourth item of a reply to a leave: an earlier leave of the owner value has written a tombstone. */
export const HAS_LEFT_BEFORE = 1;

/** In a queued reply: the holder uses this library. */
export const HOLDER_IS_OURS = 1;

export interface Queued {
  readonly state: "queued";
  readonly serverMs: number;
  /** How long in ms the holder's key still lives; negative if it has no TTL. */
  readonly leftMs: number;
  /** Decides the position, and is kept for the whole wait. Later asks of the waiter carry it. */
  readonly ticket: number;
  readonly position: number;
  readonly waiters: number;
  readonly inboxWaiters: number;
  /** Whether the holder uses this library, whose release notifies the next waiter. */
  readonly holderIsOurs: boolean;
  /** The owner value of the holder if it came from the queue and has this inbox; else `null`. */
  readonly ownHolder: string | null;
}

/** The answer to an ask or a steal. `serverMs` is the server's clock. */
export type AskAnswer =
  | {
    readonly state: "granted";
    readonly serverMs: number;
    readonly validMs: number;
    readonly fencingToken: bigint;
    /** How many other waiters of this inbox are in the queue; 0 in the answer to a steal. */
    readonly otherWaiters: number;
  }
  | {
    readonly state: "held";
    readonly serverMs: number;
    readonly leftMs: number;
    /** How many waiters are in the queue; 0 in the answer to any other ask than a try. */
    readonly waiters: number;
  }
  | Queued
  | { state: "searching"; serverMs: number }
  | { state: "late"; serverMs: number }
  | { state: "ended"; serverMs: number };

function items(reply: unknown): unknown[] {
  if (!Array.isArray(reply)) throw unexpected(reply);
  return reply;
}

/** The items of a reply that begins with a code. `null` is none, and not 0. */
function coded(reply: unknown): unknown[] {
  if (!Array.isArray(reply) || reply[0] === null) throw unexpected(reply);
  return reply;
}

function unexpected(reply: unknown): Error {
  return new Error(`Unexpected reply of the server: ${reply}`);
}

function reasonOf(reply: unknown): "expired" | "stolen" {
  const state = Number(coded(reply)[0]);
  if (state === GONE) return "expired";
  if (state === OTHER_OWNER) return "stolen";
  throw unexpected(reply);
}

export function isLate(reply: unknown): boolean {
  return Array.isArray(reply) && Number(reply[0]) === TOO_LATE;
}

export function decodeAsk(reply: unknown): AskAnswer {
  const list = coded(reply);
  const serverMs = Number(list[1]);
  const leftMs = Number(list[2]);
  const third = Number(list[3] ?? 0);
  switch (Number(list[0])) {
    case GRANTED: {
      const fencingToken = BigInt(third); // below 2^53
      const validMs = leftMs < 0 ? Infinity : leftMs;
      const otherWaiters = Number(list[4] ?? 0);
      return { state: "granted", serverMs, validMs, fencingToken, otherWaiters };
    }
    case QUEUED:
      return {
        state: "queued",
        serverMs,
        leftMs,
        ticket: third,
        position: Number(list[4]),
        waiters: Number(list[5]),
        inboxWaiters: Number(list[6]),
        holderIsOurs: Number(list[7]) === HOLDER_IS_OURS,
        ownHolder: list[8] === undefined ? null : String(list[8]),
      };
    case HELD:
      return { state: "held", serverMs, leftMs, waiters: third };
    case SEARCHING:
      return { state: "searching", serverMs };
    case TOO_LATE:
      return { state: "late", serverMs };
    case OWNER_HAS_LEFT:
      return { state: "ended", serverMs };
    default:
      throw unexpected(reply);
  }
}

export function decodeRenew(reply: unknown): RenewAnswer {
  const list = coded(reply);
  const leftMs = Number(list[1]);
  if (Number(list[0]) === DONE) return { state: "held", validMs: leftMs < 0 ? Infinity : leftMs };
  return { state: "lost", reason: reasonOf(reply) };
}

export function decodeLeave(reply: unknown): {
  readonly answer: ReleaseAnswer;
  /** False if the next waiter could not be notified: the user has no right to publish. */
  readonly isNotified: boolean;
  /** Whether the search for the next waiter is not over, so that the leave must be sent again. */
  readonly isSearching: boolean;
  /** Whether an earlier leave of the owner value, or a copy of this one, has written a tombstone. */
  readonly hasLeftBefore: boolean;
} {
  const list = coded(reply);
  const answer: ReleaseAnswer = Number(list[0]) === DONE
    ? { state: "released" }
    : { state: "gone", reason: reasonOf(reply) };
  return {
    answer,
    isNotified: Number(list[1]) === NOTIFIED,
    isSearching: Number(list[2]) === SEARCHING,
    hasLeftBefore: Number(list[3]) === HAS_LEFT_BEFORE,
  };
}

/** In a reply to a query: the waiter wants a share of the lock. */
export const WAITS_FOR_SHARE = 1;

export interface QueryAnswer {
  /** The value of the lock key; `null` if the lock is free. */
  readonly value: string | null;
  /** The SHA-1 of that value in hex. A value that is not text is not the same here as there. */
  readonly digest: string | null;
  /** How long in ms it still lives; negative if it has no TTL. */
  readonly leftMs: number;
  readonly fencingToken: bigint;
  readonly waiterCount: number;
  /** The first waiters in order, and how long each has waited in ms. */
  readonly waiters: {
    readonly value: string;
    readonly waitedMs: number;
    readonly mode: LockMode;
  }[];
  /** `null` unless the lock is shared. */
  readonly shared: {
    readonly holderCount: number;
    /** The first holders in the order in which they expire, and how long in ms each still has. */
    readonly holders: { readonly value: string; readonly leftMs: number }[];
  } | null;
}

export function decodeQuery(reply: unknown): QueryAnswer {
  const [value, digest, leftMs, token, waiterCount, waiting, holderCount, holding] = items(reply);
  const waiters = groups(waiting, 3).map(([value, waitedMs, isShared]) => ({
    ...{ value: String(value), waitedMs: Number(waitedMs) },
    mode: Number(isShared) === WAITS_FOR_SHARE ? "shared" as const : "exclusive" as const,
  }));
  const shared = holding === undefined ? null : {
    holderCount: Number(holderCount),
    holders: groups(holding, 2).map(([value, leftMs]) => ({
      ...{ value: String(value), leftMs: Number(leftMs) },
    })),
  };
  return {
    value: textOrNull(value),
    digest: textOrNull(digest),
    leftMs: Number(leftMs),
    fencingToken: BigInt(String(token)),
    waiterCount: Number(waiterCount),
    waiters,
    shared,
  };
}

/** The cursor of the first part. */
export const SCAN_START = "0";

/** Reads a part of the keys of a server, and where the next part begins: {@linkcode SCAN_START} at the end. */
export function decodeScan(reply: unknown): { cursor: string; keys: readonly string[] } {
  const [cursor, keys] = items(reply);
  return { cursor: String(cursor), keys: items(keys).map(String) };
}

/** The items of a reply in groups: an owner value, and numbers. */
function groups(reply: unknown, size: number): unknown[][] {
  const list = items(reply);
  return Array.from(
    { length: list.length / size },
    (_, i) => list.slice(size * i, size * (i + 1)),
  );
}

function textOrNull(item: unknown): string | null {
  return item === null || item === undefined || item === false ? null : String(item);
}
