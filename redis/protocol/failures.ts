/**
 * Classifies the error of a Redis command: did the server refuse, may a retry help, and the words for a message.
 *
 * @module
 */
import type { ReleaseAnswer } from "../../core/lease/grant.ts";
import type { Failure } from "../../core/time/outage_budget.ts";
import type { RedisClient } from "../client.ts";

/** Refusals that may pass: the server starts, fails over, is busy or full. */
const PASSING = new Set([
  "ASK",
  "BUSY",
  "CLUSTERDOWN",
  "KILLED",
  "LOADING",
  "MASTERDOWN",
  "MAXCLIENTS",
  "MISCONF",
  "MOVED",
  "NOREPLICAS",
  "NOSCRIPT",
  "OOM",
  "READONLY",
  "TRYAGAIN",
  "UNKILLABLE",
]);

/** Refusals that last until somebody changes a setting, a permission or the code. */
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

const REFUSALS = new Map([
  [
    "ERR",
    "it refuses the command (ERR). The cause of this error says why. " +
    "Is it Redis 6.2 or later, or Valkey 7.2 or later?",
  ],
  ["DENIED", "it is in protected mode (DENIED). Give it a password, or users"],
  ["CLUSTERDOWN", "the cluster does not serve all slots (CLUSTERDOWN)"],
  ["KILLED", "somebody has killed the script (SCRIPT KILL)"],
  ["LOADING", "it is still loading its data (LOADING)"],
  ["MASTERDOWN", "it is a replica without its primary (MASTERDOWN)"],
  ["MAXCLIENTS", "it takes no more clients (max number of clients reached). Raise 'maxclients'"],
  ["MISCONF", "it cannot save its data, so it refuses writes (MISCONF)"],
  ["NOAUTH", "the client is not logged in (NOAUTH). Give it the right user and password"],
  ["NOPERM", "the user lacks a permission (NOPERM). Check its ACL"],
  ["OOM", "its memory is full (OOM)"],
  ["READONLY", "it is a read-only replica (READONLY). Connect to the primary"],
  ["WRONGPASS", "it rejects the user name or the password (WRONGPASS)"],
  ["WRONGTYPE", "a key of the lock is of another type (WRONGTYPE). Does another program use it?"],
]);

const NETWORK_FAILURES = new Map([
  ["EAI_AGAIN", "its host name cannot be resolved (EAI_AGAIN). Is the address right?"],
  ["ECONNABORTED", "the connection was lost (ECONNABORTED). Is the server running?"],
  ["ECONNREFUSED", "the connection was refused (ECONNREFUSED). Is the server running?"],
  ["ECONNRESET", "the connection was lost (ECONNRESET). Is the server running?"],
  ["EHOSTUNREACH", "its host cannot be reached (EHOSTUNREACH). Is the address right?"],
  ["ENETUNREACH", "its network cannot be reached (ENETUNREACH). Is the address right?"],
  ["ENOTFOUND", "its host name cannot be resolved (ENOTFOUND). Is the address right?"],
  ["EPIPE", "the connection was lost (EPIPE). Is the server running?"],
  ["ETIMEDOUT", "the connection timed out (ETIMEDOUT). Is the server within reach?"],
]);

/**
 * Why no command can be sent before somebody changes a certificate, a permission or the program: the part of a code
 * or of a text that tells it and may be shown, what has happened, and what to do. Codes and alert numbers are those
 * of OpenSSL in Node, the modes those of ioredis; the other texts come from Deno. The alerts of a damaged record, of
 * an error inside the server and of a cancelled handshake may pass, and so does a certificate that is not valid yet.
 */
const SETUP_FAILURES: readonly (readonly [RegExp, string, string])[] = [
  [
    /^(?:CERT_(?!NOT_YET_VALID)|DEPTH_ZERO_|ERR_TLS_CERT_|SELF_SIGNED_|UNABLE_TO_)\w+|^invalid peer certificate(?!: NotValidYet)/,
    "the client rejects its certificate",
    "Is that valid, for this host, and signed by an authority in 'ca'?",
  ],
  [
    /^ERR_SSL_\w+?_ALERT_(?!BAD_RECORD_MAC|INTERNAL_ERROR|USER_CANCELLED)\w+|^received fatal alert(?!: (?:BadRecordMac|InternalError|UserCanceled))|\bSSL alert number (?!(?:20|80|90)\b)\d+/,
    "it refuses the TLS handshake",
    "Does it want another certificate of the client?",
  ],
  [
    /^ERR_OSSL_\w+/,
    "the client cannot use its certificate or its key",
    "Are both PEM, not encrypted, and a pair?",
  ],
  [
    /^Connection (?:in subscriber|is in monitoring) mode/,
    "the client takes no commands",
    "Give the locks a client that neither subscribes nor monitors",
  ],
  [/--allow-net\b/, "the process may not connect to it", "Give it this permission for its address"],
];

/**
 * A script has deleted a key whose slot moves to another node, and the command after that was refused.
 * The script was executed in part; sent again, it is executed as soon as the slot has moved.
 */
const EXECUTED_IN_PART =
  /cript attempted to access a non local key|undeclared keys were accessed during rehashing/;

const CLOSED = "the client is closed, or has given up reconnecting";
const OFFLINE = "the client is not connected. Is the server running?";
const USED_UP = "the client has used up its retries. Is the server running?";
const OWN_LIMIT = "the client's own time limit for a command is over";
const UNKNOWN = "the command failed. The cause of this error says why";
/** These say less than the last error of the connection. */
const VAGUE_REASONS: ReadonlySet<string> = new Set([CLOSED, OFFLINE, USED_UP, OWN_LIMIT, UNKNOWN]);

/** Error texts for what is reported without a code. The reported texts are never shown. */
const CLIENT_FAILURES: readonly (readonly [RegExp, string])[] = [
  [/^(The client|Connection) is closed\.?$/, CLOSED],
  [/^The client is offline$|^Stream isn't writeable/, OFFLINE],
  [/^Socket closed unexpectedly$/, "the connection was lost. Is the server running?"],
  [/^Reached the max retries/, USED_UP],
  [EXECUTED_IN_PART, "a slot of the cluster moves to another node"],
  [/^Command timed out$/, OWN_LIMIT],
  [/^(Connection timeout|Socket timeout)/, "the connection timed out. Is the server within reach?"],
  [
    /^None of startup nodes|^All the root nodes|^Failed to refresh slots|^No master of the cluster/,
    "no node of the cluster can be reached. Are the servers running?",
  ],
];

/** In the text of ioredis, the answer of the last sentinel that it has asked for the primary. */
const LAST_ERROR = / Last error: ([^]*)$/;

/** How deep to look for a code: errors hold others as their cause, or as a list. */
const MAX_DEPTH = 4;

/**
 * The text that Redis before 7.0 puts before the error of a command in a script: that the script failed,
 * and the line, once or twice. A dash precedes a refusal's code there, and any error in some clients.
 */
const OF_A_SCRIPT =
  /^-?(?:ERR Error running script \(call to f_[0-9a-f]{40}\): )?(?:@user_script: ?\d+: )*-?/;

/**
 * What servers say without a code, or with `ERR`, as Redis 6.2 to 8 and Valkey word it. The code is the one that
 * says the same elsewhere, or ours: all but the first three pass by themselves.
 */
const UNCODED: readonly (readonly [RegExp, string])[] = [
  [
    /^(?:ERR )?(?:The user executing the script (?:can't|is lacking) |ACL failure in script: )/,
    "NOPERM",
  ],
  [/^(?:ERR )?Protocol error: unauthenticated /, "NOAUTH"], // a long command before the login
  [/^unsupported command /, "ERR"], // of Envoy, as a proxy
  [/^(?:ERR )?max number of clients (?:\+ cluster connections )?reached/, "MAXCLIENTS"],
  [/cript attempted to execute a (?:write )?command while the cluster is down/, "CLUSTERDOWN"],
  [/cript attempted to access a slot not served/, "CLUSTERDOWN"],
  [/^(?:ERR )?Can not execute the command on a stale replica/, "MASTERDOWN"],
  [/Script killed by user with (?:SCRIPT|FUNCTION) KILL/, "KILLED"],
];

/**
 * Reads an error. A refusal is a *definite no*: the server says that it did not execute the command.
 * Our scripts make every check and every refusable write before their first effect on the lock, so that
 * holds for an error inside a script too. `null` is any other failure (a lost connection, a client's
 * time-out): the command may have been executed, or may still be.
 */
export function refusalOf(
  error: unknown,
): { readonly code: string; readonly passing: boolean } | null {
  const code = refusalCode(textOf(error));
  return code === undefined ? null : { code, passing: PASSING.has(code) };
}

function refusalCode(text: string): string | undefined {
  const [prefix = ""] = OF_A_SCRIPT.exec(text) ?? [];
  const inner = text.slice(prefix.length);
  if (EXECUTED_IN_PART.test(inner)) return undefined;
  const uncoded = UNCODED.find(([pattern]) => pattern.test(inner));
  if (uncoded !== undefined) return uncoded[1];
  const code = /^([A-Z]+)(?: |$)/.exec(inner)?.[1];
  if (code !== undefined && (PASSING.has(code) || LASTING.has(code))) return code;
  return prefix.length > 1 ? "ERR" : undefined;
}

/** The failure of a command that the client can never send to its server. The message is the reason. */
class UnusableClientError extends Error {}

const NODE_OF_CLUSTER =
  "the server is a node of a cluster, and this client is not one of a cluster";
const USE_CLUSTER = "Use createCluster(), new Cluster() or a URL with redis+cluster://";

/** The failure of a command: why the client is of no use, if that is so; else the error, without its command. */
export function failureOf(
  { unusable, cluster }: Pick<RedisClient, "unusable" | "cluster">,
  error: unknown,
): unknown {
  hideCommand(error);
  if (unusable !== undefined) return new UnusableClientError(unusable, { cause: error });
  const code = refusalOf(error)?.code;
  if (cluster || (code !== "MOVED" && code !== "ASK")) return error; // which a cluster client follows
  return new UnusableClientError(`${NODE_OF_CLUSTER} (${code}). ${USE_CLUSTER}`, { cause: error });
}

/**
 * Removes the command from an error and those in it: ioredis puts it there, and its arguments contain the owner
 * id or, if it is the client's own login, the password.
 */
export function hideCommand(error: unknown): void {
  for (const each of errorsIn(error, MAX_DEPTH)) {
    if (each instanceof Error) Reflect.deleteProperty(each, "command");
  }
}

export function classifyFailure(error: unknown): Failure {
  if (error instanceof UnusableClientError) {
    return { kind: "refused", endsOutage: false, isRefusal: true, reason: error.message };
  }
  const refusal = refusalOf(error);
  if (refusal === null) {
    const setup = setupReasonOf(error) ?? innerRefusalOf(error);
    if (setup !== null) {
      return { kind: "refused", endsOutage: false, isRefusal: false, reason: setup };
    }
    const reason = reasonOf(error);
    const isVague = VAGUE_REASONS.has(reason);
    return { kind: "retry", endsOutage: false, reason, ...(isVague ? { isVague } : {}) };
  }
  const kind = refusal.passing ? "retry" : "refused";
  return { kind, endsOutage: false, isRefusal: true, reason: reasonOfRefusal(refusal.code) };
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Why a command failed without a refusal, in our own words and a code: the text of an error may hold a password. */
function reasonOf(error: unknown): string {
  const errors = errorsIn(error, MAX_DEPTH);
  const code = errors.map(codeOf).find((code) => code !== undefined);
  if (code !== undefined) return NETWORK_FAILURES.get(code) ?? `the client failed (${code})`;
  for (const [pattern, reason] of CLIENT_FAILURES) {
    if (errors.some((each) => pattern.test(textOf(each)))) return reason;
  }
  return UNKNOWN;
}

/** `null` for a failure that may pass. */
function setupReasonOf(error: unknown): string | null {
  const words = errorsIn(error, MAX_DEPTH).flatMap((each) => [codeOf(each) ?? "", textOf(each)]);
  for (const [pattern, what, advice] of SETUP_FAILURES) {
    const shown = words.map((word) => pattern.exec(word)?.[0]).find((part) => part !== undefined);
    if (shown !== undefined) return `${what} (${shown}). ${advice}`;
  }
  return null;
}

/** Why a client cannot connect: the last refusal of a server to log it in or to name the primary; else `null`. */
function innerRefusalOf(error: unknown): string | null {
  const [, ...inner] = errorsIn(error, MAX_DEPTH);
  const texts = [...inner.map(textOf), LAST_ERROR.exec(textOf(error))?.[1] ?? ""];
  const lasting = texts.map(refusalOf).find((refusal) => refusal?.passing === false);
  return lasting ? reasonOfRefusal(lasting.code) : null;
}

function reasonOfRefusal(code: string): string {
  return REFUSALS.get(code) ?? `it refuses the command (${code})`;
}

/** An error and the errors in it, outermost first. */
function errorsIn(error: unknown, depth: number): unknown[] {
  if (!(error instanceof Error) || depth === 0) return [error];
  const { cause, errors, lastNodeError } = error as Error & Record<string, unknown>;
  const inner = [cause, ...(Array.isArray(errors) ? errors : []), lastNodeError];
  return [error, ...inner.filter(Boolean).flatMap((each) => errorsIn(each, depth - 1))];
}

/** The code of a network or TLS error: its property, or a known code in its text. */
function codeOf(error: unknown): string | undefined {
  const { code } = Object(error) as { code?: unknown };
  if (typeof code === "string" && /^[A-Z][A-Z0-9_]+$/.test(code)) return code;
  const words = textOf(error).match(/\bE[A-Z_]+\b/g);
  return words?.find((word) => NETWORK_FAILURES.has(word));
}

/**
 * The answer to a release that the server refused, if no retry can change that; else `null`. A connection that
 * cannot be made is no answer: an earlier copy of the release may have been executed.
 */
export function refusedForGood(cause: unknown): ReleaseAnswer | null {
  const { kind, isRefusal, reason } = classifyFailure(cause);
  if (kind !== "refused" || !isRefusal) return null;
  const why = reason.endsWith("?") ? reason : `${reason}.`;
  const consequence = "Until its TTL is over, the lock stays held";
  return { state: "refused", reason: `Redis refuses: ${why} ${consequence}`, cause };
}
