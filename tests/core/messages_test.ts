import { assertEquals, assertRejects } from "@std/assert";
import { LeaseLostError, LockError, LockTimeoutError, MemoryLock } from "../../mod.ts";
import { checkName, duration, label, ttl } from "../../core/contract/options.ts";

const NO_WAIT =
  "Cannot use 'steal' with 'ifAvailable', 'signal' or 'waitMs': a steal never waits, so leave them out";

/** The error that a check throws, as `Name: message`. */
function messageOf(check: () => void): string {
  try {
    check();
  } catch (error) {
    return String(error);
  }
  return "no error";
}

Deno.test("Rule.check() says which argument is bad, what it must be, and what it is", () => {
  const cases: [check: () => void, message: string][] = [
    [
      () => ttl().check("'ttlMs'", 5),
      "RangeError: Cannot use 'ttlMs': it must be a whole number of ms from 10 to 2147483647, but it is 5",
    ],
    [
      () => duration().check("'waitMs'", "5"),
      "TypeError: Cannot use 'waitMs': it must be a number of ms, but it is a string",
    ],
    [
      () => checkName(null),
      "TypeError: Cannot use the lock name: it must be a string of 1 to 1000 characters, but it is null",
    ],
    [
      () => checkName(""),
      "RangeError: Cannot use the lock name: it must be a string of 1 to 1000 characters, but it is one of 0",
    ],
    [
      () => checkName("\ud800"),
      "TypeError: Cannot use the lock name: it must be well-formed Unicode, but it is a string with a lone surrogate",
    ],
    [
      () => label().check("'label'", "a\nb"),
      "RangeError: Cannot use 'label': it must be one line of text, but it is a string with a line break or another control character",
    ],
  ];
  for (const [check, message] of cases) assertEquals(messageOf(check), message);
});

Deno.test("LeaseLostError says which lock was lost, why, and what to do", () => {
  assertEquals(
    new LeaseLostError("orders:42", "unreachable").message,
    'Lost the lease on lock "orders:42" (the service does not answer, so the lease cannot be proven): ' +
      "stop the work that the lock protects",
  );
});

Deno.test("Lease.renew() says which lock was released and what to do", async () => {
  await using locks = new MemoryLock();
  const lease = await locks.acquire("orders:42");
  await lease.release();
  await assertRejects(
    () => lease.renew(),
    LockError,
    'Cannot renew the lease on lock "orders:42": it was released; acquire the lock again',
  );
});

Deno.test("MemoryLock.request() says which option it cannot use and what to do", async () => {
  await using locks = new MemoryLock();
  const callback = () => {};
  const errors = [
    locks.request("n", { mode: "shared", steal: true }, callback),
    locks.request("n", { steal: true, ifAvailable: true }, callback),
    locks.request("n", { steal: true, waitMs: 5 }, callback),
    locks.request("n", null as unknown as () => void),
  ].map((call) => call.then(() => "no error", (error) => error.message));
  assertEquals(await Promise.all(errors), [
    "Cannot use 'steal' with a shared lease: a thief takes the lock for itself alone",
    NO_WAIT,
    NO_WAIT,
    'Cannot request lock "n": the callback must be a function, but it is null',
  ]);
});

Deno.test("LockTimeoutError says which lock, how long the call waited, who holds it, and what to do", () => {
  assertEquals(
    [new LockTimeoutError("n", 50, "billing-3").message, new LockTimeoutError("n", 50).message],
    ['"billing-3" holds it', "somebody else had it"].map((reason) =>
      `Cannot acquire lock "n" within 50 ms: ${reason}; ` +
      "try again later, or with a longer 'waitMs'"
    ),
  );
});
