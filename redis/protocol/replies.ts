/**
 * What the server answers: replies decoded, errors sorted.
 *
 * @module
 */
import type { ReleaseAnswer, RenewAnswer } from "../../core/grant.ts";
import type { Failure } from "../../core/outage_budget.ts";

/** Refusals that may end by themselves: the server starts, fails over, is busy or full. */
const PASSING = new Set([
  "ASK",
  "BUSY",
  "CLUSTERDOWN",
  "LOADING",
  "MASTERDOWN",
  "MISCONF",
  "MOVED",
  "NOREPLICAS",
  "NOSCRIPT",
  "OOM",
  "READONLY",
  "TRYAGAIN",
  "UNKILLABLE",
]);

/** Refusals that need somebody to change something. */
const LASTING = new Set([
  "CROSSSLOT",
  "DENIED",
  "ERR",
  "EXECABORT",
  "NOAUTH",
  "NOPERM",
  "NOPROTO",
  "WRONGPASS",
  "WRONGTYPE",
]);

/** A refusal by the server itself. */
export interface Refusal {
  /** The first word of the error. */
  readonly code: string;
  /** Whether the same command may succeed a little later. */
  readonly passing: boolean;
}

/**
 * Reads an error. A refusal is a *definite no*: the server says that it did not do it. Our scripts
 * make every check and every refusable write before their first effect on the lock, so that holds for
 * an error inside a script too. `null` is any other failure (a lost connection, a client's time-out):
 * the command may have been executed, or may still be.
 */
export function refusalOf(error: unknown): Refusal | null {
  const message = error instanceof Error ? error.message : String(error);
  const code = /^-?([A-Z]+)(?: |$)/.exec(message)?.[1];
  if (code === undefined || !(PASSING.has(code) || LASTING.has(code))) return null;
  return { code, passing: PASSING.has(code) };
}

/** Tells an outage budget what a failed command means. */
export function classifyFailure(error: unknown): Failure {
  const refusal = refusalOf(error);
  if (refusal === null) {
    return { kind: "retry", endsOutage: false, reason: "it does not answer in time" };
  }
  const kind = refusal.passing ? "retry" : "refused";
  return { kind, endsOutage: false, reason: `it refuses (${refusal.code})` };
}

/** Whether the server does not know the script. */
export function isNoScript(error: unknown): boolean {
  return /^-?NOSCRIPT\b/.test(error instanceof Error ? error.message : String(error));
}

/** A place in the queue. */
export interface Queued {
  readonly state: "queued";
  readonly serverMs: number;
  /** What is left to the holder in ms; negative if its key has no TTL. */
  readonly leftMs: number;
  /** The place in line, to be brought along by the next ask. */
  readonly ticket: number;
  /** 1 for the first in line. */
  readonly position: number;
  readonly waiters: number;
  /** How many waiters of this inbox the server knows; -1 if it did not count. */
  readonly known: number;
  /** Whether the holder will hand over, as we do. */
  readonly holderIsOurs: boolean;
}

/** What the server says of an ask or a steal; its clock in ms. */
export type AskAnswer =
  | { state: "granted"; serverMs: number; validMs: number; fencingToken: bigint }
  | { state: "held"; serverMs: number; leftMs: number }
  | Queued
  | { state: "late"; serverMs: number }
  | { state: "ended"; serverMs: number };

function items(reply: unknown): unknown[] {
  if (!Array.isArray(reply)) throw unexpected(reply);
  return reply;
}

/** `null` is no number, least of all 0, which says that a lock is held, or gone. */
function numbers(reply: unknown): number[] {
  return items(reply).map((item) => item === null ? NaN : Number(item));
}

/** Not an answer: what became of the lock is not known. */
function unexpected(reply: unknown): Error {
  return new Error(`Unexpected reply of the server: ${reply}`);
}

/** What a script says of a lock that is not the caller's. */
function reasonOf(state: number | undefined, reply: unknown): "expired" | "stolen" {
  if (state === 0) return "expired";
  if (state === -1) return "stolen";
  throw unexpected(reply);
}

/** Decodes the reply of `ask.lua` and `steal.lua`. */
export function decodeAsk(reply: unknown): AskAnswer {
  const list = numbers(reply);
  const at = (index: number) => list[index] ?? 0;
  const [serverMs, leftMs] = [at(1), at(2)];
  switch (list[0]) {
    case 1: {
      const fencingToken = BigInt(at(3)); // below 2^53
      return { state: "granted", serverMs, validMs: leftMs < 0 ? Infinity : leftMs, fencingToken };
    }
    case 2: {
      const [ticket, position, waiters, known] = [at(3), at(4), at(5), at(6)];
      const holderIsOurs = at(7) === 1;
      return { state: "queued", serverMs, leftMs, ticket, position, waiters, known, holderIsOurs };
    }
    case 0:
      return { state: "held", serverMs, leftMs };
    case -1:
      return { state: "late", serverMs };
    case -2:
      return { state: "ended", serverMs };
    default:
      throw unexpected(reply);
  }
}

/** Decodes the reply of `renew.lua`. */
export function decodeRenew(reply: unknown): RenewAnswer {
  const [state, leftMs = 0] = numbers(reply);
  if (state === 1) return { state: "held", validMs: leftMs < 0 ? Infinity : leftMs };
  return { state: "lost", reason: reasonOf(state, reply) };
}

/** What the server says of a leave. */
export interface Left {
  readonly answer: ReleaseAnswer;
  /** Whether the next holder's inbox could be told; a user without rights to channels cannot. */
  readonly told: boolean;
}

/** Decodes the reply of `leave.lua`. */
export function decodeLeave(reply: unknown): Left {
  const [state, told] = numbers(reply);
  const answer: ReleaseAnswer = state === 1
    ? { state: "released" }
    : { state: "gone", reason: reasonOf(state, reply) };
  return { answer, told: told === 1 };
}

/** What the server says of a query. */
export interface QueryAnswer {
  /** What stands in the lock key, `null` if nothing. */
  readonly value: string | null;
  /** What is left of it in ms; negative if it has no TTL. */
  readonly leftMs: number;
  /** The last fencing token. */
  readonly fencingToken: bigint;
  /** Who waits and for how long in ms, first in line first. */
  readonly waiters: { readonly value: string; readonly waitedMs: number }[];
}

/** Decodes the reply of `query.lua`. */
export function decodeQuery(reply: unknown): QueryAnswer {
  const [value, leftMs, token, waiting] = items(reply);
  const list = items(waiting);
  const waiters = [];
  for (let i = 0; i < list.length; i += 2) {
    waiters.push({ value: String(list[i]), waitedMs: Number(list[i + 1]) });
  }
  return {
    value: value === null || value === undefined || value === false ? null : String(value),
    leftMs: Number(leftMs),
    fencingToken: BigInt(String(token)),
    waiters,
  };
}

/** What an inbox is told: of a grant, of a free lock to race for, of a lease that was stolen. */
export type InboxMessage =
  | GrantMessage
  | { kind: "race" | "stolen"; lockKey: string; value: string };

/** The lock was handed over to a waiter, for a claim in ms. */
export interface GrantMessage {
  readonly kind: "grant";
  readonly lockKey: string;
  readonly value: string;
  readonly serverMs: number;
  readonly claimMs: number;
  readonly fencingToken: bigint;
}

/** Decodes a message; `null` if it is none of ours: anybody may publish on a channel. */
export function decodeMessage(text: string): InboxMessage | null {
  // No JSON, no split(): they cost a process that has just woken as much as all else here.
  const fields: string[] = [];
  const count = text.startsWith("g\n") ? 5 : 2;
  let start = 0;
  while (fields.length < count) {
    const end = text.indexOf("\n", start);
    if (end === -1) return null;
    fields.push(text.slice(start, end));
    start = end + 1;
  }
  const [kind, value = ""] = fields;
  const lockKey = text.slice(start);
  if (kind === "r" || kind === "s") {
    return { kind: kind === "r" ? "race" : "stolen", lockKey, value };
  }
  const [token = NaN, serverMs = NaN, claimMs = NaN] = fields.slice(2).map(Number);
  if (kind !== "g" || !Number.isSafeInteger(token) || token < 1) return null;
  if (!Number.isFinite(serverMs) || !Number.isFinite(claimMs)) return null;
  return { kind: "grant", lockKey, value, serverMs, claimMs, fencingToken: BigInt(token) };
}
