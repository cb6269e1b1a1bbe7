import { assert, assertEquals } from "@std/assert";
import {
  BadServersError,
  ConnectError,
  type FailedAttempt,
} from "../../../zookeeper/connection/connect_error.ts";
import { ProtocolError } from "../../../zookeeper/connection/wire.ts";

const SERVER = { host: "zk1", port: 2281 };

function withCode(code: string): Error {
  return Object.assign(new Error(`failed: ${code}`), { code });
}

function bytes(text: string): Uint8Array {
  return Uint8Array.from(text, (each) => each.charCodeAt(0));
}

/** An attempt that failed, what its message has, and whether it needs a change. */
type Case = [Omit<FailedAttempt, "server">, RegExp, boolean];

const CASES: readonly Case[] = [
  [
    { phase: "connect", error: withCode("ECONNREFUSED") },
    /zk1:2281: ECONNREFUSED.* running/,
    false,
  ],
  [{ phase: "connect", isLate: true }, /zk1:2281: ETIMEDOUT/, false],
  [{ phase: "connect", address: "10.0.0.1", isLate: true }, /zk1:2281 at 10.0.0.1: ETIMED/, false],
  [{ phase: "resolve", error: withCode("ENOTFOUND") }, /ENOTFOUND.* host name right/, false],
  [{ phase: "resolve", error: withCode("EPERM") }, /EPERM.*--allow-net/, true],
  [{ phase: "connect", error: new Deno.errors.NotCapable("no net") }, /NotCapable\). no net/, true],
  [{ phase: "handshake", tls: "anonymous", isLate: true }, /no answer to the TLS handshake/, false],
  [{ phase: "handshake", tls: "anonymous" }, /ended the TLS handshake\). Does it speak TLS/, false],
  [
    { phase: "handshake", tls: "anonymous", error: withCode("ECONNRESET") },
    /ended the TLS handshake/,
    false,
  ],
  [
    { phase: "handshake", tls: "anonymous", error: new Error("bad record") },
    /: bad record\)/,
    false,
  ],
  [{ phase: "handshake", tls: "anonymous", error: withCode("EPROTO") }, /EPROTO.*speak TLS/, true],
  [
    { phase: "handshake", tls: "anonymous", error: withCode("ERR_SSL_WRONG_VERSION_NUMBER") },
    /WRONG_VERSION_NUMBER\). Does it speak TLS/,
    true,
  ],
  [
    { phase: "handshake", tls: "anonymous", error: withCode("CERT_HAS_EXPIRED") },
    /CERT_HAS_EXPIRED\). Renew/,
    true,
  ],
  [
    { phase: "handshake", tls: "certified", error: withCode("SELF_SIGNED_CERT_IN_CHAIN") },
    /SELF_SIGNED_CERT_IN_CHAIN.*'tls.ca'/,
    true,
  ],
  [
    { phase: "handshake", tls: "anonymous", error: withCode("ERR_TLS_CERT_ALTNAME_INVALID") },
    /another host.*'tls.servername'/,
    true,
  ],
  [{ phase: "accepted" }, /accepted the session, but answered no request\). Is it in a/, false],
  [
    { phase: "session", tls: "anonymous", error: withCode("ERR_SSL_TLSV13_ALERT_X") },
    /ALERT_X.*'tls.cert'/,
    true,
  ],
  [{ phase: "session", tls: "none" }, /without an answer.*If it expects TLS, set 'tls'/, false],
  [{ phase: "session", tls: "anonymous" }, /without an answer.*'tls.cert'/, false],
  [{ phase: "session", tls: "certified" }, /without an answer\). Is it .* in a quorum\?$/, false],
  [
    { phase: "session", tls: "none", isLate: true },
    /session in time\). Is it a ZooKeeper server, and in a quorum\?$/,
    false,
  ],
  [
    { phase: "session", error: new ProtocolError("5 bytes", bytes("\x15\x03\x01\0\x02")) },
    /it speaks TLS\). Set 'tls'/,
    true,
  ],
  [
    {
      phase: "session",
      error: new ProtocolError("4 bytes", bytes("HTTP/1.1 400 Bad\r\nA: b\r\n")),
    },
    /: it answered "HTTP\/1.1 400 Bad"\). That is a web server/,
    true,
  ],
  [
    { phase: "session", error: new ProtocolError("4 bytes", bytes("J\0\0\0\n8.0.36\0secret")) },
    /: A reply|4 bytes|cannot be read/,
    false,
  ],
  [
    { phase: "session", answer: bytes("-ERR unknown command 'srvr'\r\n") },
    /: it answered "-ERR unknown command 'srvr'"\). That is Redis: use RedisLock/,
    true,
  ],
  [
    { phase: "session", isLate: true, answer: bytes("SSH-2.0-OpenSSH_9.6\r\n") },
    /: it answered "SSH-2.0-OpenSSH_9.6"\). That is an SSH server/,
    true,
  ],
  [
    { phase: "session", isLate: true, answer: bytes(`${"x".repeat(200)}\n`) },
    /: it answered "x{60}"\). Is it a ZooKeeper server\?$/,
    false,
  ],
  [
    { phase: "session", isLate: true, answer: bytes("This ZooKeeper instance is not serving\n") },
    /: it answered "This ZooKeeper instance is not serving"\). Is it in a quorum\?$/,
    false,
  ],
  ...["Zookeeper version: 3.8.0\n", "srvr is not executed because it is not in the whitelist."].map(
    (text): Case => [
      { phase: "session", isLate: true, answer: bytes(text) },
      /it did not accept the session in time\)/,
      false,
    ],
  ),
  [{ phase: "session", answer: bytes("-ERR\r\n") }, /it answered "-ERR"\). That is Redis/, true],
  [
    { phase: "session", error: new ProtocolError("6 bytes", bytes("\x16\x03\x03\0\x02\x01")) },
    /it speaks TLS\). Set 'tls'/,
    true,
  ],
  [
    { phase: "session", isLate: true, answer: bytes("\x16 bytes\n") },
    /: it answered "bytes"\). Is it a ZooKeeper server/,
    false,
  ],
  // A code of the system's that does not begin with an E, as those of bad certificates.
  [
    { phase: "connect", tls: "anonymous", error: withCode("UNKNOWN") },
    /UNKNOWN\). Is the server running/,
    false,
  ],
  [
    { phase: "session", tls: "none", error: withCode("UNKNOWN") },
    /UNKNOWN\). Is it a ZooKeeper server/,
    false,
  ],
  [
    { phase: "session", tls: "none", error: new ProtocolError("A reply has 5 bytes") },
    /cannot be read\). A reply has 5 bytes/,
    false,
  ],
];

Deno.test("ConnectError says what a server answered, what to check, and whether it needs a change", () => {
  for (const [attempt, pattern, isSetup] of CASES) {
    const error = new ConnectError([{ server: SERVER, ...attempt }]);
    assert(pattern.test(error.message), `${error.message} is not ${pattern}`);
    assertEquals(error.isSetup, isSetup, error.message);
  }
});

Deno.test("ConnectError says why the servers are not known", () => {
  const thrown = new ConnectError([{ phase: "resolve", error: new Error("consul is down") }]);
  assert(thrown.message.includes("(list of servers: consul is down)"), thrown.message);
  assertEquals(thrown.isSetup, false);
  const bad = new ConnectError([{ phase: "resolve", error: new BadServersError("no string") }]);
  assert(bad.message.includes("no string"), bad.message);
  assertEquals(bad.isSetup, true);
});

Deno.test("ConnectError names three servers and counts the others, those that need a change first", () => {
  const refused = [1, 2, 3, 4].map((port): FailedAttempt => ({
    server: { host: "::1", port },
    phase: "connect",
    error: withCode("ECONNREFUSED"),
  }));
  const expired: FailedAttempt = {
    server: SERVER,
    phase: "handshake",
    tls: "anonymous",
    error: withCode("CERT_HAS_EXPIRED"),
  };
  const error = new ConnectError([...refused, expired]);
  assertEquals(
    error.message,
    "the connection failed (zk1:2281: CERT_HAS_EXPIRED, [::1]:1: ECONNREFUSED, " +
      "[::1]:2: ECONNREFUSED, and 2 more). Renew its certificate, or set the clock. " +
      "Is the server running?",
  );
  assertEquals([error.code, error.cause, error.isSetup], [
    "CERT_HAS_EXPIRED",
    expired.error,
    false,
  ]);
});
