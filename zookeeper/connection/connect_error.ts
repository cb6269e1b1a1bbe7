import { diagnoseAnswer, type Diagnosis } from "./other_server.ts";
import type { ServerAddress } from "./transport.ts";
import { ProtocolError } from "./wire.ts";

/** The user's function has returned no usable connect string. */
export class BadServersError extends Error {
  override readonly name = "BadServersError";
}

export interface FailedAttempt {
  /** Left out if the servers could not even be listed. */
  readonly server?: ServerAddress;
  /** The address of the server, if it has several. */
  readonly address?: string | undefined;
  /**
   * How far it has come: `"resolve"` while servers are listed, or addresses looked up; `"handshake"` is that of TLS;
   * `"session"` when the client has asked for the session, and `"accepted"` when it has it.
   */
  readonly phase: "resolve" | "connect" | "handshake" | "session" | "accepted";
  /** The error, if there was one. Else the server has closed the connection, or was too slow. */
  readonly error?: unknown;
  readonly isLate?: boolean;
  /** The answer to the question who listens there, if there was one. */
  readonly answer?: Uint8Array | undefined;
  /** Whether the socket speaks TLS, and with a certificate of the client. */
  readonly tls?: "none" | "anonymous" | "certified";
}

const HANDSHAKE_ENDED = "it ended the TLS handshake";
const MAX_NAMED = 3;

/** Why no server could be connected to. Its message names what the servers answered. */
export class ConnectError extends Error {
  override readonly name = "ConnectError";
  /** The code of the error of one attempt: of one that needs a change, if there is one. */
  readonly code: string | undefined;
  /** Whether no server can be connected to before somebody changes something. */
  readonly isSetup: boolean;

  /** @param attempts The last attempt at each server; at least one. */
  constructor(attempts: readonly FailedAttempt[]) {
    const all = attempts.map((attempt) => ({ attempt, ...diagnose(attempt) }));
    const named = all.toSorted((a, b) => Number(b.isSetup ?? false) - Number(a.isSetup ?? false))
      .slice(0, MAX_NAMED);
    const more = all.length > named.length ? `, and ${all.length - named.length} more` : "";
    const list = named.map(({ attempt, what }) => `${placeOf(attempt)}: ${what}`).join(", ");
    const advice = new Set(named.map(({ advice }) => advice));
    const { error } = named[0]!.attempt;
    super(
      `the connection failed (${list}${more}). ${[...advice].join(" ")}`,
      error === undefined ? {} : { cause: error },
    );
    this.code = codeOf(error);
    this.isSetup = all.every(({ isSetup }) => isSetup === true);
  }
}

/** Where it was made: the server, and the address that was tried, if that is one of several. */
export function placeOf({ server, address }: FailedAttempt): string {
  if (server === undefined) return "list of servers";
  const { host, port } = server;
  const place = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  return address === undefined ? place : `${place} at ${address}`;
}

function diagnose(attempt: FailedAttempt): Diagnosis {
  const { phase, error, isLate, server } = attempt;
  if (error instanceof BadServersError) {
    return { what: "it is bad", advice: `${error.message}.`, isSetup: true };
  }
  if (server === undefined) return diagnoseList(attempt);
  if (error instanceof ProtocolError) return diagnoseBytes(error);
  // The message of this error names the missing permission.
  if (error instanceof Error && error.name === "NotCapable") {
    return { what: error.name, advice: `${error.message}.`, isSetup: true };
  }
  const code = codeOf(error);
  if (phase === "resolve") return diagnoseLookup(code ?? String(error));
  if (code !== undefined && isOfTls(code, attempt)) return diagnoseTls(code);
  if (phase === "handshake") {
    const ended = code === undefined && error instanceof Error ? error.message : HANDSHAKE_ENDED;
    const what = isLate ? "no answer to the TLS handshake" : ended;
    return { what, advice: "Does it speak TLS on this port?" };
  }
  if (phase === "session") return diagnoseSession(attempt);
  if (phase === "accepted") {
    const what = "it accepted the session, but answered no request";
    return { what, advice: "Is it in a quorum?" };
  }
  return { what: code ?? (isLate ? "ETIMEDOUT" : "closed"), advice: "Is the server running?" };
}

function diagnoseList({ error }: FailedAttempt): Diagnosis {
  const message = error instanceof Error ? error.message : String(error);
  return { what: codeOf(error) ?? message, advice: "Does the function of the servers work?" };
}

function diagnoseBytes(error: ProtocolError): Diagnosis {
  return (error.bytes && diagnoseAnswer(error.bytes)) ??
    { what: "its answer cannot be read", advice: error.message };
}

function diagnoseLookup(code: string): Diagnosis {
  // Deno reports a missing permission like this when it looks a host name up.
  return code === "EPERM"
    ? { what: code, advice: "Does the process have --allow-net for this host?", isSetup: true }
    : { what: code, advice: "Is the host name right?" };
}

/** Whether an error is TLS's own: a bad certificate, an alert, or bytes that are no TLS. */
function isOfTls(code: string, { phase, tls = "none" }: FailedAttempt): boolean {
  if (tls === "none" || phase === "connect") return false;
  // The codes of OpenSSL's checks of certificates, such as CERT_HAS_EXPIRED, do not begin with an E.
  return code === "EPROTO" || /^ERR_(?:SSL|TLS)_/.test(code) || !code.startsWith("E");
}

function diagnoseTls(code: string): Diagnosis {
  const isSetup = true;
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") {
    const advice = "Its certificate is for another host: use that name, or set 'tls.servername'.";
    return { what: code, advice, isSetup };
  }
  if (/ALERT/.test(code)) {
    const advice = "It refuses the TLS handshake: does it want another 'tls.cert'?";
    return { what: code, advice, isSetup };
  }
  if (/^ERR_SSL|^EPROTO/.test(code)) {
    return { what: code, advice: "Does it speak TLS on this port?", isSetup };
  }
  const advice = /EXPIRED|NOT_YET_VALID/.test(code)
    ? "Renew its certificate, or set the clock."
    : "Is its certificate from an authority in 'tls.ca'?";
  return { what: code, advice, isSetup };
}

/** The server has accepted the connection, but not the session. */
function diagnoseSession({ isLate, tls = "none", error, answer }: FailedAttempt): Diagnosis {
  const known = answer && diagnoseAnswer(answer);
  if (known) return known;
  const isInQuorum = "Is it a ZooKeeper server, and in a quorum?";
  if (isLate) return { what: "it did not accept the session in time", advice: isInQuorum };
  const hint = {
    none: " If it expects TLS, set 'tls'.",
    anonymous: " If it wants a certificate, set 'tls.cert'.",
    certified: "",
  }[tls];
  const what = codeOf(error) ?? "it closed the connection without an answer";
  return { what, advice: isInQuorum + hint };
}

function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, name } = error as Error & { code?: unknown };
  if (typeof code === "string") return code;
  return name === "NotCapable" ? name : undefined;
}
