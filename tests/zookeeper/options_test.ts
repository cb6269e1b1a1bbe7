import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { ZooKeeperLock, type ZooKeeperLockOptions } from "../../zookeeper/mod.ts";
import { readSettings, ZOOKEEPER_LOCK_OPTIONS } from "../../zookeeper/options.ts";
import { readTable } from "../../core/contract/options.ts";
import { requestLimitMs } from "../../zookeeper/connection/requests.ts";

const warn = () => {};
const readOptions = (options: ZooKeeperLockOptions) =>
  readTable("new ZooKeeperLock()", options, ZOOKEEPER_LOCK_OPTIONS);

const BAD: [unknown, typeof TypeError | typeof RangeError][] = [
  [{ rootPath: 1 }, TypeError],
  [{ rootPath: "locks" }, RangeError],
  [{ rootPath: "/" }, RangeError],
  [{ sessionTimeoutMs: "1" }, TypeError],
  [{ sessionTimeoutMs: 99 }, RangeError],
  [{ sessionTimeoutMs: 1000.5 }, RangeError],
  [{ unavailableAfterMs: 0 }, RangeError],
  [{ requestTimeoutMs: null }, TypeError],
  [{ requestTimeoutMs: Infinity }, RangeError],
  [{ label: "a\nb" }, RangeError],
  [{ disposeTimeoutMs: -1 }, RangeError],
  [{ auth: null }, TypeError],
  [{ auth: { scheme: "digest" } }, TypeError],
  [{ auth: { scheme: "", credentials: "a:b" } }, RangeError],
  [{ onWarning: "console" }, TypeError],
  [{ tls: true }, TypeError],
  [{ tls: { ca: "none" } }, RangeError],
];

Deno.test("ZooKeeperLock throws at construction when an argument is bad", () => {
  for (const [bad, type] of BAD) {
    assertThrows(() => new ZooKeeperLock("127.0.0.1", bad as ZooKeeperLockOptions), type);
  }
  assertThrows(() => new ZooKeeperLock("", {}), RangeError);
  assertThrows(() => new ZooKeeperLock(undefined as unknown as string), TypeError);
  assertThrows(() => new ZooKeeperLock(["a", "b"] as unknown as string), TypeError);
});

Deno.test("ZooKeeperLock does not show the credentials in an error about them", () => {
  const auth = { scheme: "digest", credentials: "" };
  for (const secret of ["hunter2"]) {
    const bad = { ...auth, scheme: 1 as unknown as string, credentials: secret };
    const error = assertThrows(() => new ZooKeeperLock("a", { auth: bad }), TypeError);
    assert(!error.message.includes(secret));
  }
});

Deno.test("readSettings() puts the chroot before the root path, and derives the request timeout", () => {
  const settings = readSettings("a:1/app", readOptions({}), warn);
  assertEquals([settings.rootPath, settings.sessionTimeoutMs], ["/app/holdfast/locks", 10_000]);
  assertEquals(requestLimitMs(settings, 4_000), 1_000);
  assertEquals(requestLimitMs(settings, 60_000), 2_500);
  const given = readOptions({ requestTimeoutMs: 77 });
  assertEquals(requestLimitMs(readSettings("a", given, warn), 4_000), 77);
});

Deno.test("ZooKeeperLock does not connect before its first call, and rejects calls after disposal", async () => {
  const locks = new ZooKeeperLock("127.0.0.1:1");
  assertEquals(locks.capabilities.fifo, "global");
  await locks[Symbol.asyncDispose]();
  const error = await assertRejects(() => locks.acquire("n"), DOMException);
  assertEquals(error.name, "InvalidStateError");
});

Deno.test("ZooKeeperLock says what it offers", async () => {
  await using locks = new ZooKeeperLock("127.0.0.1:1", { sessionTimeoutMs: 100 });
  assertEquals(locks.capabilities, {
    fifo: "global",
    endsBy: "session",
    steal: false,
    attach: false,
    shared: true,
    limit: false,
    list: true,
  });
});

Deno.test("ZooKeeperLock connects for no call that cannot be made", async () => {
  let lists = 0;
  const locks = new ZooKeeperLock(() => {
    lists++;
    return "127.0.0.1:1";
  });
  const signal = AbortSignal.abort(new Error("enough"));
  for (const method of ["acquire", "tryAcquire"] as const) {
    await assertRejects(() => locks[method](""), RangeError);
    await assertRejects(() => locks[method]("n", { signal }), Error, "enough");
  }
  await assertRejects(() => locks.query(""), RangeError);
  await locks[Symbol.asyncDispose]();
  const calls = [() => locks.acquire("n"), () => locks.tryAcquire("n"), () => locks.query("n")];
  for (const call of calls) {
    assertEquals((await assertRejects(call, DOMException)).name, "InvalidStateError");
  }
  assertEquals(assertThrows(() => locks.list(), DOMException).name, "InvalidStateError");
  assertEquals(lists, 0);
});
