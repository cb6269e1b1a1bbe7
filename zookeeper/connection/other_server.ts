/**
 * Who listens on a port where no session was accepted: what the bytes of its answer show. A server of another kind
 * may wait in silence for the rest of a request, as Redis does, so it is asked a question that ends with its line.
 *
 * @module
 */
import type { Socket } from "node:net";

/** What is wrong with a server, in words. */
export interface Diagnosis {
  /** The error's code, or what has happened. */
  readonly what: string;
  readonly advice: string;
  /** Whether no later attempt can succeed before somebody changes something. */
  readonly isSetup?: boolean;
}

/** A question that ZooKeeper answers also without a quorum. Other servers answer it each in its own way. */
const QUESTION = "srvr\n";
/** Maximum length, in characters, of an answer in a message. */
const MAX_SHOWN = 60;
/** Texts of other servers, and what to do. */
const OTHERS: readonly (readonly [RegExp, string])[] = [
  [/^[-+][A-Z]/, "That is Redis: use RedisLock, or the address of ZooKeeper."],
  [
    /^HTTP\/|^<(?:!doctype|html)/i,
    "That is a web server, as is ZooKeeper's AdminServer: use the port for clients.",
  ],
  [/^SSH-/, "That is an SSH server: use the port of ZooKeeper."],
];

/** Asks who listens there, once a connecting socket is ready. The caller destroys it; an answer does, too. */
export function askWho(
  socket: Socket,
  readyEvent: "connect" | "secureConnect",
  onAnswer: (bytes: Uint8Array) => void,
): void {
  socket.on(readyEvent, () => socket.write(QUESTION));
  socket.on("data", (bytes: Uint8Array) => {
    socket.destroy();
    onAnswer(bytes);
  });
  socket.on("error", () => {}); // the attempt to connect reports its own
}

/** Reads the first bytes of a server. `null` if they do not tell more than that it is ZooKeeper. */
export function diagnoseAnswer(bytes: Uint8Array): Diagnosis | null {
  if (isTlsRecord(bytes)) {
    return { what: "it speaks TLS", advice: "Set 'tls', or use another port.", isSetup: true };
  }
  const text = textOf(bytes);
  if (text.length < 4 || /^Zookeeper version|not in the whitelist/.test(text)) return null;
  const what = `it answered ${JSON.stringify(text)}`;
  if (text.startsWith("This ZooKeeper")) return { what, advice: "Is it in a quorum?" };
  const [, advice] = OTHERS.find(([pattern]) => pattern.test(text)) ?? [];
  if (advice === undefined) return { what, advice: "Is it a ZooKeeper server?" };
  return { what, advice, isSetup: true };
}

/** The first line of what can be read. */
function textOf(bytes: Uint8Array): string {
  const text = String.fromCharCode(...bytes.subarray(0, 256));
  const [line = ""] = text.trimStart().split(/[\r\n]/);
  return line.replace(/[^ -~]+/g, " ").trim().slice(0, MAX_SHOWN);
}

/** Whether these are the first bytes of an alert, or of a handshake, of any version of TLS. */
function isTlsRecord([type, version]: Uint8Array): boolean {
  return (type === 0x15 || type === 0x16) && version === 3;
}
