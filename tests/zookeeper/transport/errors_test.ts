import { assert, assertEquals } from "@std/assert";
import { classifyFailure, ZooKeeperError } from "../../../zookeeper/transport/errors.ts";

/** An error of a socket, as `node:net` makes it. */
function socketError(code: string, place: { address?: string; port?: number } = {}): Error {
  return Object.assign(new Error(`connect ${code}`), { code, ...place });
}

Deno.test("classifyFailure() names the socket's error, and the address, when nothing is connected", () => {
  const refused = socketError("ECONNREFUSED", { address: "127.0.0.1", port: 2181 });
  for (const code of ["TIMEOUT", "NOT_CONNECTED"] as const) {
    assertEquals(classifyFailure(new ZooKeeperError(code, "", { cause: refused })), {
      kind: "retry",
      endsOutage: false,
      reason: "the connection failed (ECONNREFUSED at 127.0.0.1:2181). Is the server running?",
    });
  }
  const unreachable = new ZooKeeperError("TIMEOUT", "", { cause: socketError("EHOSTUNREACH") });
  assertEquals(
    classifyFailure(unreachable).reason,
    "the connection failed (EHOSTUNREACH). Is the server running?",
  );
});

Deno.test("classifyFailure() asks for the host name when that is unknown", () => {
  const cause = Object.assign(socketError("ENOTFOUND"), { hostname: "zk1" });
  const { reason } = classifyFailure(new ZooKeeperError("TIMEOUT", "", { cause }));
  assertEquals(reason, "the connection failed (ENOTFOUND at zk1). Is the host name right?");
});

Deno.test("classifyFailure() names the missing permission", () => {
  const cause = new Deno.errors.NotCapable('Requires net access to "a:1"');
  const { reason } = classifyFailure(new ZooKeeperError("TIMEOUT", "", { cause }));
  assertEquals(reason, 'no connection is permitted. Requires net access to "a:1"');
  const resolving = new ZooKeeperError("TIMEOUT", "", { cause: socketError("EPERM") });
  assert(classifyFailure(resolving).reason.includes("--allow-net"));
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
  const cause = socketError("ECONNREFUSED");
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
    const { kind, endsOutage } = classifyFailure(new ZooKeeperError(code, ""));
    assertEquals({ kind, endsOutage }, { kind: "restart", endsOutage: false });
  }
});

Deno.test("classifyFailure() returns foreign for an error that is not ZooKeeper's", () => {
  assertEquals(classifyFailure(new Error("a bug")).kind, "foreign");
});
