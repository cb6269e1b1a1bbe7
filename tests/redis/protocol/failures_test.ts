import { assertEquals, assertStringIncludes } from "@std/assert";
import { inspect } from "node:util";
import {
  classifyFailure,
  failureOf,
  refusalOf,
  refusedForGood,
} from "../../../redis/protocol/failures.ts";

Deno.test("refusalOf() distinguishes refusals by the server from errors of the client", () => {
  const passing = [
    "LOADING Redis is loading",
    "-READONLY You can't write",
    "OOM command not allowed",
  ];
  for (const text of passing) assertEquals(refusalOf(new Error(text))?.passing, true, text);
  const lasting = ["NOPERM this user", "WRONGTYPE Operation against", "ERR unknown command"];
  for (const text of lasting) assertEquals(refusalOf(new Error(text))?.passing, false, text);
  const unknown = [
    "connect ECONNREFUSED 127.0.0.1:6379",
    "ECONNRESET",
    "Socket closed unexpectedly",
    "Connection is closed.",
    "-something else",
    "",
  ];
  for (const text of unknown) assertEquals(refusalOf(new Error(text)), null, text);
});

/** How Redis 6.2.16 answers when a command of a script is refused; the texts are quoted from a server. */
const WRAPPED = "ERR Error running script (call to f_008aee95e6d9a85774e7cdf068614e412516d255): " +
  "@user_script:2: ";
const REFUSED = `${WRAPPED}@user_script: 2: `;
/** How Redis 7.0 and later, and Valkey, say where the script was refused. */
const PLACE = " script: 008aee95e6d9a85774e7cdf068614e412516d255, on @user_script:2.";

Deno.test("refusalOf() reads the refusals that Redis 6.2 wraps into a script error", () => {
  const passing = {
    OOM: "-OOM command not allowed when used memory > 'maxmemory'.",
    READONLY: "-READONLY You can't write against a read only replica.",
    NOREPLICAS: "-NOREPLICAS Not enough good replicas to write.",
    MISCONF:
      "-MISCONF Redis is configured to save RDB snapshots, but it is currently not able to " +
      "persist on disk. Commands that may modify the data set are disabled, because this instance " +
      "is configured to report errors during writes if RDB snapshotting fails " +
      "(stop-writes-on-bgsave-error option). Please check the Redis logs for details about the " +
      "RDB error.",
  };
  for (const [code, text] of Object.entries(passing)) {
    for (const wrapped of [REFUSED + text, `-${REFUSED}${text}`, `@user_script: 2: ${text}`]) {
      assertEquals(refusalOf(new Error(wrapped)), { code, passing: true }, wrapped);
    }
  }
  const aof = "-MISCONF Errors writing to the AOF file: No space left on device";
  assertEquals(refusalOf(new Error(REFUSED + aof))?.passing, true);
});

Deno.test("refusalOf() reads the other errors that Redis 6.2 wraps into a script error", () => {
  const lasting = {
    [`${WRAPPED}WRONGTYPE Operation against a key holding the wrong kind of value`]: "WRONGTYPE",
    [`${REFUSED}The user executing the script can't run this command or subcommand`]: "NOPERM",
    [
      `${REFUSED}The user executing the script can't access at least one of the keys mentioned in ` +
      "the command arguments"
    ]: "NOPERM",
    [
      `${REFUSED}The user executing the script can't publish to the channel mentioned in the ` +
      "command"
    ]: "NOPERM",
    [`${REFUSED}Unknown Redis command called from Lua script`]: "ERR",
    [`${WRAPPED}ERR value is not an integer or out of range`]: "ERR",
    [`${WRAPPED}user_script:2: attempt to index local 'a' (a nil value)`]: "ERR",
  };
  for (const [text, code] of Object.entries(lasting)) {
    assertEquals(refusalOf(new Error(text)), { code, passing: false }, text);
  }
});

Deno.test("refusalOf() reads the refusals in a script of Redis 7 and later, and of Valkey", () => {
  const refusals: [text: string, code: string, passing: boolean][] = [
    ["OOM command not allowed when used memory > 'maxmemory'.", "OOM", true],
    ["READONLY You can't write against a read only replica.", "READONLY", true],
    ["NOREPLICAS Not enough good replicas to write.", "NOREPLICAS", true],
    ["WRONGTYPE Operation against a key holding the wrong kind of value", "WRONGTYPE", false],
    ["ERR The user executing the script can't run this command or subcommand", "NOPERM", false],
    ["ERR ACL failure in script: No permissions to access a key", "NOPERM", false],
    ["ERR Unknown Redis command called from script", "ERR", false],
    ["ERR user_script:2: attempt to index local 'a' (a nil value)", "ERR", false],
  ];
  for (const [text, code, passing] of refusals) {
    for (const place of [PLACE, ""]) {
      assertEquals(refusalOf(new Error(text + place)), { code, passing }, text + place);
    }
  }
});

Deno.test("refusalOf() knows the ERR texts that pass by themselves", () => {
  const texts = {
    "ERR max number of clients reached": "MAXCLIENTS",
    "ERR max number of clients + cluster connections reached": "MAXCLIENTS",
    [`ERR Script attempted to execute a command while the cluster is down${PLACE}`]: "CLUSTERDOWN",
    [`${REFUSED}Lua script attempted to execute a write command while the cluster is down and readonly`]:
      "CLUSTERDOWN",
    [`ERR Script attempted to access a slot not served${PLACE}`]: "CLUSTERDOWN",
    [`ERR Can not execute the command on a stale replica${PLACE}`]: "MASTERDOWN",
    [`ERR Error running script, @user_script:1: Script killed by user with SCRIPT KILL...`]:
      "KILLED",
    [`${WRAPPED}Script killed by user with SCRIPT KILL...`]: "KILLED",
  };
  for (const [text, code] of Object.entries(texts)) {
    assertEquals(refusalOf(new Error(text)), { code, passing: true }, text);
  }
});

Deno.test("refusalOf() knows the texts that say by other words what a code says", () => {
  const texts = {
    "ERR Protocol error: unauthenticated multibulk length": "NOAUTH",
    "ERR Protocol error: unauthenticated bulk length": "NOAUTH",
    "unsupported command 'EVALSHA'": "ERR",
  };
  for (const [text, code] of Object.entries(texts)) {
    assertEquals(refusalOf(new Error(text)), { code, passing: false }, text);
  }
});

Deno.test("refusalOf() takes a script that a moving slot interrupts for one that may have been executed", () => {
  const text = "cript attempted to access a non local key in a cluster node";
  const unstable = "ERR Unable to execute command 'exists' in script " +
    "because undeclared keys were accessed during rehashing of the slot";
  for (const error of [`${REFUSED}Lua s${text}`, `ERR S${text}${PLACE}`, unstable + PLACE]) {
    assertEquals(refusalOf(new Error(error)), null, error);
    assertEquals(classifyFailure(new Error(error)), {
      kind: "retry",
      endsOutage: false,
      reason: "a slot of the cluster moves to another node",
    });
  }
});

Deno.test("refusalOf() reads the refusals before a script starts, which no server wraps", () => {
  const passing = {
    LOADING: "LOADING Redis is loading the dataset in memory",
    MASTERDOWN: "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    BUSY: "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    NOSCRIPT: "NOSCRIPT No matching script. Please use EVAL.",
  };
  for (const [code, text] of Object.entries(passing)) {
    assertEquals(refusalOf(new Error(text)), { code, passing: true }, text);
  }
});

Deno.test("refusalOf() recognizes a script that is not loaded with and without a leading dash", () => {
  assertEquals(refusalOf(new Error("NOSCRIPT No matching script"))?.code, "NOSCRIPT");
  assertEquals(refusalOf(new Error("-NOSCRIPT No matching script."))?.code, "NOSCRIPT");
  assertEquals(refusalOf(new Error("ERR NOSCRIPT"))?.code, "ERR");
});

function reasonOf(error: unknown): string {
  return classifyFailure(error).reason;
}

Deno.test("classifyFailure() finds the code of a network error wherever the error holds it", () => {
  const refused = "the connection was refused (ECONNREFUSED). Is the server running?";
  const coded = Object.assign(new Error("no text"), { code: "ECONNREFUSED" });
  assertEquals(reasonOf(coded), refused);
  assertEquals(reasonOf(new Error("connect ECONNREFUSED 127.0.0.1:6379")), refused);
  assertEquals(reasonOf("connect ECONNREFUSED ::1:6379"), refused);
  assertEquals(reasonOf(new Error("Connection failed", { cause: coded })), refused);
  assertEquals(reasonOf(new AggregateError([new Error("::1"), coded])), refused);
  const ofCluster = Object.assign(new Error("Failed to refresh slots cache."), {
    lastNodeError: coded,
  });
  assertEquals(reasonOf(ofCluster), refused);
  const expired = Object.assign(new Error(), { code: "CERT_HAS_EXPIRED" });
  assertEquals(
    /^the client rejects its certificate \(CERT_HAS_EXPIRED\)/.test(reasonOf(expired)),
    true,
  );
  const other = Object.assign(new Error(), { code: "SOME_CODE" });
  assertEquals(reasonOf(other), "the client failed (SOME_CODE)");
});

Deno.test("classifyFailure() says what the well-known clients report without a code", () => {
  const closed = "the client is closed, or has given up reconnecting";
  assertEquals(reasonOf(new Error("The client is closed")), closed);
  assertEquals(reasonOf(new Error("Connection is closed.")), closed);
  const offline = "the client is not connected. Is the server running?";
  assertEquals(reasonOf(new Error("The client is offline")), offline);
  const lost = "the connection was lost. Is the server running?";
  assertEquals(reasonOf(new Error("Socket closed unexpectedly")), lost);
});

Deno.test("classifyFailure() repeats a passing refusal, and names the code of each one", () => {
  const full = classifyFailure(new Error("OOM command not allowed"));
  assertEquals(full, {
    kind: "retry",
    endsOutage: false,
    isRefusal: true,
    reason: "its memory is full (OOM)",
  });
  assertEquals(classifyFailure(new Error("NOPERM this user")).kind, "refused");
  assertEquals(
    reasonOf(new Error("ERR unknown command")),
    "it refuses the command (ERR). The cause of this error says why. " +
      "Is it Redis 6.2 or later, or Valkey 7.2 or later?",
  );
});

Deno.test("classifyFailure() takes a bad certificate, a missing permission and a client that subscribes for errors of setup, which answer no release", () => {
  const coded = (code: string) => Object.assign(new Error("x"), { code });
  const failures: [error: Error, shown: string][] = [
    [coded("CERT_HAS_EXPIRED"), "CERT_HAS_EXPIRED"],
    [coded("DEPTH_ZERO_SELF_SIGNED_CERT"), "DEPTH_ZERO_SELF_SIGNED_CERT"],
    [coded("ERR_TLS_CERT_ALTNAME_INVALID"), "ERR_TLS_CERT_ALTNAME_INVALID"],
    [coded("SELF_SIGNED_CERT_IN_CHAIN"), "SELF_SIGNED_CERT_IN_CHAIN"],
    [coded("UNABLE_TO_VERIFY_LEAF_SIGNATURE"), "UNABLE_TO_VERIFY_LEAF_SIGNATURE"],
    [new Error("invalid peer certificate: UnknownIssuer"), "invalid peer certificate"],
    [
      coded("ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED"),
      "ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED",
    ],
    [coded("ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE"), "ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE"],
    [
      Object.assign(
        new Error("write EPROTO 0:SSL routines:sslv3 alert:x.c:1:SSL alert number 40"),
        {
          code: "EPROTO",
        },
      ),
      "SSL alert number 40",
    ],
    [new Error("received fatal alert: CertificateRequired"), "received fatal alert"],
    [coded("ERR_OSSL_PEM_NO_START_LINE"), "ERR_OSSL_PEM_NO_START_LINE"],
    [coded("ERR_OSSL_X509_KEY_VALUES_MISMATCH"), "ERR_OSSL_X509_KEY_VALUES_MISMATCH"],
    [
      new Error("Connection in subscriber mode, only subscriber commands may be used"),
      "Connection in subscriber mode",
    ],
    [
      new Error("Connection is in monitoring mode, can't process commands."),
      "Connection is in monitoring mode",
    ],
    [
      new Error('Requires net access to "h:6379", run again with the --allow-net flag'),
      "--allow-net",
    ],
  ];
  for (const [error, shown] of failures) {
    for (const each of [error, new Error("Connection failed", { cause: error })]) {
      const { kind, isRefusal, reason } = classifyFailure(each);
      assertEquals([kind, isRefusal], ["refused", false], shown);
      assertEquals(reason.includes(`(${shown}). `), true, reason);
      assertEquals(refusedForGood(each), null);
    }
  }
  const passing = ["ECONNRESET", "EPIPE", "ERR_SSL_WRONG_VERSION_NUMBER", "ETIMEDOUT"];
  const passingTls = [
    ...["CERT_NOT_YET_VALID", "ERR_SSL_TLSV1_ALERT_INTERNAL_ERROR"],
    "ERR_SSL_SSLV3_ALERT_BAD_RECORD_MAC",
  ];
  for (const code of [...passing, ...passingTls]) {
    assertEquals(classifyFailure(coded(code)).kind, "retry", code);
  }
  const texts = [
    ...["invalid peer certificate: NotValidYet", "received fatal alert: InternalError"],
    "write EPROTO 00:error:0A000438:SSL routines::tlsv1 alert internal error:SSL alert number 80",
  ];
  for (const text of texts) assertEquals(classifyFailure(new Error(text)).kind, "retry", text);
});

Deno.test("failureOf() takes a redirection for an error of setup only if the client is not one of a cluster", () => {
  const unusable = undefined;
  for (const code of ["MOVED", "ASK"]) {
    const error = new Error(`${code} 3999 127.0.0.1:6381`);
    const failure = failureOf({ unusable, cluster: false }, error);
    assertEquals(classifyFailure(failure).kind, "refused");
    assertEquals((failure as Error).cause, error);
    assertEquals(failureOf({ unusable, cluster: true }, error), error);
    assertEquals(classifyFailure(error).kind, "retry");
  }
  for (const text of ["TRYAGAIN Multiple keys", "CLUSTERDOWN The cluster is down"]) {
    const error = new Error(text);
    assertEquals(failureOf({ unusable, cluster: false }, error), error);
    assertEquals(classifyFailure(error).kind, "retry");
  }
});

Deno.test("failureOf() removes the command from an error, as it may be the login with its password", () => {
  const command = { name: "auth", args: ["PASSWORD"] };
  const inner = Object.assign(new Error("WRONGPASS invalid"), { command });
  const error = Object.assign(new Error("Failed"), { command, lastNodeError: inner });
  for (const unusable of [undefined, "the client is closed"]) {
    const failure = failureOf({ unusable, cluster: true }, error);
    assertEquals(inspect(failure, { depth: Infinity }).includes("PASSWORD"), false);
  }
});

Deno.test("classifyFailure() shows no text of an error, as it may hold a password", () => {
  const secret = "redis://user:PASSWORD@host failed for owner job-7#0123456789abcdef";
  const errors = [
    new Error(secret),
    new Error("WRONGPASS invalid username-password pair: PASSWORD"),
    new Error(`connect ECONNREFUSED ${secret}`),
    Object.assign(new Error("x", { cause: new Error(secret) }), { code: secret }),
    secret,
    undefined,
    null,
  ];
  for (const error of errors) {
    const reason = reasonOf(error);
    assertEquals(/PASSWORD@|: PASSWORD|job-7|user:/.test(reason), false, reason);
  }
});

Deno.test("classifyFailure() ends on an error that is its own cause", () => {
  const error = new Error("odd");
  error.cause = error;
  assertEquals(reasonOf(error), "the command failed. The cause of this error says why");
});

/** The errors of ioredis that hold the answer of a node, or the text of the one of a sentinel. */
function withInner(text: string): Error[] {
  const sentinels = "All sentinels are unreachable. Retrying from scratch after 10ms. Last error: ";
  return [
    Object.assign(new Error("Failed to refresh slots cache."), { lastNodeError: new Error(text) }),
    new Error(`${sentinels}${text}`),
  ];
}

Deno.test("classifyFailure() finds a lasting refusal of a node or a sentinel in the error of a client that cannot connect", () => {
  const texts = {
    NOAUTH: "NOAUTH Authentication required.",
    WRONGPASS: "WRONGPASS invalid username-password pair or user is disabled.",
    NOPERM: "NOPERM User u has no permissions to run the 'cluster|slots' command",
    ERR: "ERR This instance has cluster support disabled",
  };
  for (const [code, text] of Object.entries(texts)) {
    for (const error of withInner(text)) {
      const { kind, isRefusal, reason } = classifyFailure(error);
      assertEquals([kind, isRefusal], ["refused", false], text);
      assertStringIncludes(reason, `(${code})`);
      assertEquals(refusedForGood(error), null, "an earlier copy may have been executed");
    }
  }
  const passing = ["LOADING Redis is loading the dataset in memory", "Connection is closed."];
  for (const error of passing.flatMap(withInner)) {
    assertEquals(classifyFailure(error).kind, "retry", error.message);
  }
});

Deno.test("refusedForGood() answers a release that no retry can change, and says what to do", () => {
  const left = "Until its TTL is over, the lock stays held";
  for (
    const [text, why] of [
      ["NOPERM this user", "the user lacks a permission (NOPERM). Check its ACL."],
      [
        "WRONGTYPE Operation against",
        "a key of the lock is of another type (WRONGTYPE). Does another program use it?",
      ],
    ] as const
  ) {
    const cause = new Error(text);
    const reason = `Redis refuses: ${why} ${left}`;
    assertEquals(refusedForGood(cause), { state: "refused", reason, cause });
  }
  for (const text of ["OOM command not allowed", "connect ECONNREFUSED 127.0.0.1:6379"]) {
    assertEquals(refusedForGood(new Error(text)), null, text);
  }
});
