import { assertEquals } from "@std/assert";
import { ConnectError, type FailedAttempt } from "../../../zookeeper/connection/connect_error.ts";
import {
  classifyFailure,
  refusalOf,
  ZooKeeperError,
} from "../../../zookeeper/connection/failures.ts";
import { ProtocolError } from "../../../zookeeper/connection/wire.ts";

const REFUSED = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
const FAILED: FailedAttempt = {
  server: { host: "127.0.0.1", port: 2181 },
  phase: "connect",
  error: REFUSED,
};

Deno.test("classifyFailure() names what the servers answered when nothing is connected", () => {
  const cause = new ConnectError([FAILED]);
  for (const code of ["TIMEOUT", "NOT_CONNECTED"] as const) {
    assertEquals(classifyFailure(new ZooKeeperError(code, "", { cause })), {
      kind: "retry",
      endsOutage: false,
      reason: "the connection failed (127.0.0.1:2181: ECONNREFUSED). Is the server running?",
    });
  }
});

Deno.test("classifyFailure() returns refused, but no refusal of the server, when nothing can be connected", () => {
  const cause = new ConnectError([{
    ...FAILED,
    error: new Deno.errors.NotCapable("Requires net"),
  }]);
  assertEquals(classifyFailure(new ZooKeeperError("SETUP", "", { cause })), {
    kind: "refused",
    endsOutage: false,
    isRefusal: false,
    reason: "the connection failed (127.0.0.1:2181: NotCapable). Requires net.",
  });
});

Deno.test("classifyFailure() names the socket's error when a connection was lost", () => {
  const { reason } = classifyFailure(new ZooKeeperError("TIMEOUT", "", { cause: REFUSED }));
  assertEquals(reason, "the connection was lost (ECONNREFUSED). Is the server running?");
});

Deno.test("classifyFailure() says why an answer could not be read", () => {
  const cause = new ProtocolError("A reply has only 5 bytes");
  const { reason } = classifyFailure(new ZooKeeperError("CONNECTION_LOSS", "", { cause }));
  assertEquals(reason, "its answer cannot be read. A reply has only 5 bytes");
});

Deno.test("classifyFailure() names the code when the socket reported no error", () => {
  const cause = new Error("The server did not accept the session in time");
  const { reason } = classifyFailure(new ZooKeeperError("TIMEOUT", "", { cause }));
  assertEquals(
    reason,
    "it does not answer in time (TIMEOUT). Is the server running, and in a quorum?",
  );
});

Deno.test("classifyFailure() shows the server's error when it refuses, whatever the cause is", () => {
  const cause = REFUSED;
  const refused = new ZooKeeperError("REFUSED", "ZooKeeper answered with error (-199)", { cause });
  assertEquals(classifyFailure(refused), {
    kind: "refused",
    endsOutage: true,
    reason: "it refuses (REFUSED): ZooKeeper answered with error (-199)",
  });
  assertEquals(classifyFailure(new ZooKeeperError("AUTH_FAILED", "", { cause })), {
    kind: "refused",
    endsOutage: false,
    reason: "it refuses the credentials (AUTH_FAILED). Check 'auth'",
  });
});

Deno.test("classifyFailure() returns retry for a refusal that may pass, which does not end the outage", () => {
  for (const code of ["THROTTLED", "READ_ONLY", "QUOTA_EXCEEDED"] as const) {
    const { kind, endsOutage, isRefusal } = classifyFailure(new ZooKeeperError(code, ""));
    assertEquals({ kind, endsOutage, isRefusal }, {
      kind: "retry",
      endsOutage: false,
      isRefusal: true,
    });
  }
});

Deno.test("classifyFailure() returns restart when the caller must start over", () => {
  for (const code of ["SESSION_OVER", "OWN_ZNODE_GONE"] as const) {
    const { kind, endsOutage, isVague } = classifyFailure(new ZooKeeperError(code, ""));
    assertEquals([kind, endsOutage, isVague], ["restart", false, true]);
  }
});

Deno.test("classifyFailure() returns foreign for an error that is not ZooKeeper's", () => {
  const { kind, endsOutage } = classifyFailure(new Error("a bug"));
  assertEquals([kind, endsOutage], ["foreign", false]);
});

Deno.test("refusalOf() knows the codes of the servers that it treats in different ways", () => {
  const codes = {
    [-101]: "NO_NODE",
    [-102]: "NO_AUTH",
    [-110]: "NODE_EXISTS",
    [-111]: "NOT_EMPTY",
    [-112]: "SESSION_OVER",
    [-115]: "AUTH_FAILED",
    [-118]: "CONNECTION_LOSS", // the session has moved
    [-119]: "READ_ONLY",
    [-125]: "QUOTA_EXCEEDED",
    [-127]: "THROTTLED",
    [-8]: "REFUSED",
  };
  for (const [code, name] of Object.entries(codes)) {
    const error = refusalOf(Number(code));
    assertEquals([error.code, error.message.includes(`(${code})`)], [name, true]);
  }
});
