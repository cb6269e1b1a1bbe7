/**
 * What the server answers: replies decoded, errors sorted.
 *
 * @module
 */
import type { ReleaseAnswer, RenewAnswer } from "../core/grant.ts";

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

/** Whether the server does not know the script. */
export function isNoScript(error: unknown): boolean {
  return /^-?NOSCRIPT\b/.test(error instanceof Error ? error.message : String(error));
}

/** What the server says of an acquire or a steal; its clock in ms. */
export type AskAnswer =
  | { state: "granted"; serverMs: number; validMs: number; fencingToken: bigint }
  | { state: "held"; serverMs: number; leftMs: number }
  | { state: "late"; serverMs: number };

function numbers(reply: unknown): number[] {
  if (!Array.isArray(reply)) throw new Error(`Unexpected reply of the server: ${reply}`);
  return reply.map(Number);
}

/** Decodes the reply of `acquire.lua` and `steal.lua`. */
export function decodeAsk(reply: unknown): AskAnswer {
  const [state, serverMs = 0, leftMs = 0, token = 0] = numbers(reply);
  if (state === 1) {
    return { state: "granted", serverMs, validMs: leftMs, fencingToken: BigInt(token) };
  }
  return state === 0 ? { state: "held", serverMs, leftMs } : { state: "late", serverMs };
}

/** Decodes the reply of `renew.lua`. */
export function decodeRenew(reply: unknown): RenewAnswer {
  const [state, leftMs = 0] = numbers(reply);
  if (state === 1) return { state: "held", validMs: leftMs };
  return { state: "lost", reason: state === 0 ? "expired" : "stolen" };
}

/** Decodes the reply of `release.lua`. */
export function decodeRelease(reply: unknown): ReleaseAnswer {
  if (Number(reply) === 1) return { state: "released" };
  return { state: "gone", reason: Number(reply) === 0 ? "expired" : "stolen" };
}

/** What the server says of a query. */
export interface QueryAnswer {
  /** What stands in the lock key, `null` if nothing. */
  readonly value: string | null;
  /** What is left of it in ms; negative if it has no TTL. */
  readonly leftMs: number;
  /** The last fencing token. */
  readonly fencingToken: bigint;
}

/** Decodes the reply of `query.lua`. */
export function decodeQuery(reply: unknown): QueryAnswer {
  if (!Array.isArray(reply)) throw new Error(`Unexpected reply of the server: ${reply}`);
  const [value, leftMs, token] = reply;
  return {
    value: value === null || value === undefined || value === false ? null : String(value),
    leftMs: Number(leftMs),
    fencingToken: BigInt(Number(token)),
  };
}
