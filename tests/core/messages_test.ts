import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { LeaseLostError, LockError, LockTimeoutError, MemoryLock } from "../../mod.ts";
import { FileLock } from "../../file/mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";
import {
  checkName,
  count,
  date,
  duration,
  holderLimit,
  label,
  oneOf,
  OWNER_ID,
  readTable,
  required,
  type Rule,
  text,
  ttl,
} from "../../core/contract/options.ts";

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
    [
      () => oneOf(["a", "b"]).check("'mode'", "c"),
      `TypeError: Cannot use 'mode': it must be "a" or "b", but it is "c"`,
    ],
    [
      () => oneOf(["a", "b"]).check("'mode'", 5),
      `TypeError: Cannot use 'mode': it must be "a" or "b", but it is 5`,
    ],
    [
      () => readTable("f()", {}, { key: required(ttl().check) }),
      "TypeError: Cannot use 'key': it must be a number of ms, but it is undefined",
    ],
    [
      () => date().check("'tick'", 5),
      "TypeError: Cannot use 'tick': it must be a Date, but it is a number",
    ],
  ];
  for (const [check, message] of cases) assertEquals(messageOf(check), message);
});

Deno.test("Rule.check() takes the least and the greatest value, and none beyond", () => {
  const x = (length: number) => "x".repeat(length);
  const cases: [rule: Rule, good: unknown[], bad: unknown[]][] = [
    [ttl(), [10, 2 ** 31 - 1], [9, 2 ** 31]],
    [duration(), [1, 2 ** 31 - 1], [0, 2 ** 31]],
    [duration({ min: 0 }), [0], [-1]],
    [count(), [0, Number.MAX_SAFE_INTEGER], [-1]],
    [holderLimit(), [1, 10_000], [0, 10_001]],
    [label(), [x(1), x(100)], ["", x(101), "a\nb"]],
    [OWNER_ID, [x(1), x(500)], ["", x(501), "a\nb", "holdfast:shared"]],
    [text(), ["", x(1_000), "a\nb"], [x(1_001)]],
    [date(), [new Date(0)], [new Date(NaN)]],
  ];
  for (const [rule, good, bad] of cases) {
    for (const value of good) rule.check("it", value);
    for (const value of bad) assertThrows(() => rule.check("it", value), RangeError);
  }
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

const LIFETIME = "the lifetime of a lease is 'ttlMs' on Redis and 'sessionTimeoutMs' on ZooKeeper";
const SEVERAL = "a call takes one name; several names: acquireAll()";

Deno.test("a bare value in the place of a name or of options gets a message that says what to write", async () => {
  const client = { send: () => Promise.reject(new Error("unused")), epoch: 0, cluster: false };
  await using memory = new MemoryLock();
  await using redis = new RedisLock(client);
  const { signal } = new AbortController();
  const cases: [call: () => unknown, message: string][] = [];
  for (const locks of [memory, redis]) {
    const acquire = (name: unknown, options?: unknown) =>
      locks.acquire(name as string, options as object);
    const name = "Cannot use an array as the lock name: ";
    const options = "Cannot use the options: they must be an object, but they are ";
    cases.push(
      [() => acquire(["a", "b"]), name + SEVERAL],
      [() => locks.tryAcquire(["a"] as unknown as string), name + SEVERAL],
      [() => locks.request(["a"] as unknown as string, () => {}), name + SEVERAL],
      [() => locks.query(["a"] as unknown as string), name + SEVERAL],
      [
        () => acquire(Promise.resolve("a")),
        "Cannot use the lock name: it must be a string of 1 to 1000 characters, but it is a promise " +
        "(is an 'await' missing?)",
      ],
      [
        () => acquire("a", 1_000),
        `${options}a number; the longest wait is { waitMs }; ${LIFETIME}`,
      ],
      [
        () => (locks as MemoryLock).request("a", 1_000 as unknown as object, () => {}),
        `${options}a number; the longest wait is { waitMs }; ${LIFETIME}`,
      ],
      [() => acquire("a", null), `${options}null`],
      [() => acquire("a", "b"), `${options}a string; ${SEVERAL}`],
      [() => acquire("a", ["b"]), `${options}an array; ${SEVERAL}`],
      [() => acquire("a", signal), `${options}an AbortSignal; pass it as { signal }`],
      [
        () => acquire("a", () => {}),
        `${options}a function; to run it under the lock, call request()`,
      ],
      [() => acquire("a", Promise.resolve({})), `${options}a promise (is an 'await' missing?)`],
    );
  }
  const options = "Cannot use the options: they must be an object, but they are ";
  cases.push(
    [() => new RedisLock(client, 1_000 as unknown as object), `${options}a number; ${LIFETIME}`],
    [() => new FileLock("./locks" as unknown as object), `${options}a string; pass it as { dir }`],
    [
      () => new ZooKeeperLock({} as string, "zk1:2181" as unknown as object),
      `${options}a string; the servers come first, then the options`,
    ],
  );
  for (const [call, message] of cases) {
    const error = await assertRejects(async () => await call(), TypeError);
    assertEquals(error.message, message);
  }
});

Deno.test("MemoryLock.request() says that the options come before the callback", async () => {
  await using locks = new MemoryLock();
  const call = locks.request as (...args: unknown[]) => Promise<unknown>;
  await assertRejects(
    () => call("n", () => {}, { waitMs: 5 }),
    TypeError,
    "the callback must be a function, but it is an object; the options come before it",
  );
});
