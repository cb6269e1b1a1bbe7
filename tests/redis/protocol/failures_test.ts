import { assertEquals } from "@std/assert";
import { classifyFailure, isNoScript, refusalOf } from "../../../redis/protocol/failures.ts";

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
    "",
  ];
  for (const text of unknown) assertEquals(refusalOf(new Error(text)), null, text);
});

Deno.test("isNoScript() recognizes the error with and without a leading dash", () => {
  assertEquals(isNoScript(new Error("NOSCRIPT No matching script")), true);
  assertEquals(isNoScript(new Error("-NOSCRIPT No matching script.")), true);
  assertEquals(isNoScript(new Error("ERR NOSCRIPT")), false);
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
  assertEquals(reasonOf(expired), "the client failed (CERT_HAS_EXPIRED)");
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
  assertEquals(reasonOf(new Error("ERR unknown command")), "it refuses the command (ERR)");
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
