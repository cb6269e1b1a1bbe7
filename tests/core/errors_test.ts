import { assert, assertEquals } from "@std/assert";
import * as ours from "../../core/contract/errors.ts";

/** The same module loaded again, as in a program that contains two copies of the package. */
const theirs: typeof ours = await import(
  new URL("../../core/contract/errors.ts?copy=2", import.meta.url).href
);

const { LeaseLostError, LockError, LockSetupError, LockTimeoutError, LockUnavailableError } = ours;

Deno.test("LockError and each subclass has its own code", () => {
  assertEquals(new LockError("m").code, "ERR_LOCK");
  assertEquals(new LockError("m", "n", { code: "ERR_LEASE_RELEASED" }).code, "ERR_LEASE_RELEASED");
  assertEquals(new LeaseLostError("n", "stolen").code, "ERR_LEASE_LOST");
  assertEquals(new LockSetupError("m").code, "ERR_LOCK_SETUP");
  assertEquals(new LockTimeoutError("n", 5).code, "ERR_LOCK_TIMEOUT");
  assertEquals(new LockUnavailableError("m").code, "ERR_LOCK_UNAVAILABLE");
});

Deno.test("LockError and its subclasses keep the cause and the name of the lock", () => {
  const cause = new Error("ECONNREFUSED");
  for (
    const error of [
      new LockError("m", "n", { cause }),
      new LockSetupError("m", "n", { cause }),
      new LockUnavailableError("m", "n", { cause }),
      new LeaseLostError("n", "expired", { cause }),
      new LockTimeoutError("n", 5, "label", { cause }),
    ]
  ) {
    assertEquals([error.lockName, error.cause], ["n", cause]);
  }
  assert(!("cause" in new LockError("m")), "an error without a cause has no such property");
});

Deno.test("instanceof LockError recognises errors of another copy of the package", () => {
  assert(theirs.LockError !== LockError);
  const foreign = new theirs.LeaseLostError("n", "expired");
  assert(foreign instanceof LeaseLostError);
  assert(foreign instanceof LockError);
  assert(!(foreign instanceof LockUnavailableError));
  const timeout = new theirs.LockTimeoutError("n", 5);
  assert(timeout instanceof LockTimeoutError && timeout instanceof LockError);
  assert(!(timeout instanceof LockUnavailableError));
  assert(new LockSetupError("m") instanceof theirs.LockSetupError);
});

Deno.test("LockSetupError is a LockError but not a LockUnavailableError", () => {
  const setup: unknown = new LockSetupError("m");
  assert(setup instanceof LockError && !(setup instanceof LockUnavailableError));
});

Deno.test("instanceof LockError works as usual for other values and for subclasses of users", () => {
  class PaymentError extends LockError {}
  assert(new PaymentError("m") instanceof PaymentError);
  assert(new PaymentError("m") instanceof LockError);
  assert(!(new LockError("m") instanceof PaymentError));
  for (const value of [null, undefined, 1, "LockError", {}, new Error("m")]) {
    assert(!((value as unknown) instanceof LockError), String(value));
  }
});
