/**
 * The file system of each runtime: the choice, the errors of `flock`, the clock and the watch.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { constants } from "node:os";
import { SYSTEM_CLOCK } from "../../core/time/clock.ts";
import { DirectoryChanges } from "../../file/directory_changes.ts";
import { chooseFileSystem } from "../../file/system/choose.ts";
import { firstOf, tryLockBy, unlockBy } from "../../file/system/flock.ts";
import { wallClock } from "../../file/system/node_fs.ts";
import { LockSetupError } from "../../mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { withoutSlowLooks } from "../../testing/file/watching.ts";

for (const runtime of ["node", "bun"]) {
  Deno.test(`chooseFileSystem() throws a LockSetupError in ${runtime} on Windows`, () => {
    const versions = { node: "22.0.0", [runtime]: "1.0.0" };
    const error = assertThrows(
      () => chooseFileSystem({ versions, platform: "win32" }),
      LockSetupError,
      "on Windows it works with Deno only",
    );
    assertEquals((error as LockSetupError).code, "ERR_LOCK_SETUP");
  });
}

Deno.test("chooseFileSystem() throws a LockSetupError in a Bun whose fstat() has no bigints", () => {
  for (const bun of ["0.8.1", "1.0.0", "1.2.23"]) {
    const runtime = { versions: { node: "24.0.0", bun }, platform: "linux" };
    assertThrows(() => chooseFileSystem(runtime), LockSetupError, "needs Bun 1.3 or later");
  }
  for (const bun of ["1.3.0", "1.10.0", "2.0.0"]) {
    const runtime = { versions: { node: "24.0.0", bun }, platform: "linux" };
    assertThrows(() => chooseFileSystem(runtime), LockSetupError, "`bun:ffi`, which does not work");
  }
});

Deno.test("FileSystem.watch() returns null in Deno 2.8, which does not report that it missed changes", () => {
  for (const deno of ["2.8.0", "2.8.3"]) {
    const { watch } = chooseFileSystem({ versions: { deno }, platform: "linux" });
    const watching = watch(Deno.cwd(), { onChange() {}, onAnyChange() {}, onEnd() {} });
    watching?.close();
    assertEquals(watching, null, deno);
  }
});

Deno.test("tryLockBy() reports a locked file for EWOULDBLOCK alone, and throws any other error", () => {
  const { EWOULDBLOCK } = constants.errno;
  assertEquals(tryLockBy(() => 0, 3, true), true);
  assertEquals(tryLockBy(() => EWOULDBLOCK, 3, true), false);
  assertThrows(() => unlockBy(() => EWOULDBLOCK, 3));
  for (const [code, errno] of [...Object.entries(constants.errno), ["", -1]] as const) {
    if (errno === EWOULDBLOCK) continue;
    const error = assertThrows(() => tryLockBy(() => errno, 3, false), Error, `errno ${errno}`);
    const number = constants.errno[(error as NodeJS.ErrnoException).code as "EPERM"];
    assertEquals(number, code === "" ? undefined : errno);
  }
});

Deno.test("firstOf() returns the first result, and throws the first error when there is none", () => {
  const failing = (value: string) => {
    throw new Error(`no ${value}`);
  };
  assertEquals(firstOf(["a", "b", "c"], (value) => value === "a" ? failing(value) : value), "b");
  assertThrows(() => firstOf(["a", "b"], failing), Error, "no a");
});

Deno.test("wallClock() follows the wall clock when it is set, and grows in between", () => {
  const nowUs = wallClock();
  const now = Date.now;
  try {
    for (const byMs of [0, -3_600_000, 7_200_000, 0.5, 0]) {
      Date.now = () => Math.floor(now() + byMs);
      let last = nowUs();
      for (let i = 0; i < 5_000; i++) {
        const earliest = BigInt(Date.now()) * 1_000n;
        const us = nowUs();
        const latest = BigInt(Date.now() + 1) * 1_000n;
        assert(earliest <= us && us < latest, `${us} is not from ${earliest} to ${latest}`);
        assert(us >= last, "it went back");
        last = us;
      }
    }
  } finally {
    Date.now = now;
  }
});

Deno.test("wallClock() has fractions of a millisecond", () => {
  const nowUs = wallClock();
  const seen = new Set<bigint>();
  while (seen.size < 10) seen.add(nowUs() % 1_000n);
});

Deno.test("DirectoryChanges looks rarely for killed holders when many wait and no watch reports them", async () => {
  const watch = () => ({ seesKills: false, close: () => {} });
  const changes = new DirectoryChanges({ ...chooseFileSystem(), watch }, 1);
  const { signal } = new AbortController();
  const timeOf = async (count: number) => {
    const waiters = Array.from({ length: count }, (_, i) => changes.enter(`/locks/${i}.lock`));
    for (let i = 0; i < 2; i++) await changes.next(waiters[0]!, "held", signal); // It was just woken.
    const startMs = performance.now();
    await changes.next(waiters[0]!, "held", signal);
    const durationMs = performance.now() - startMs;
    for (const waiter of waiters) changes.leave(waiter);
    return durationMs;
  };
  assert(await timeOf(300) >= 299);
  const short = [await timeOf(1), await timeOf(1), await timeOf(1)];
  assert(Math.min(...short) < 299, "a single waiter must look at each poll interval");
  changes.close();
});

Deno.test("DirectoryChanges looks again soon when it was woken between the write and the unlock of a release", async () => {
  const watch = () => ({ seesKills: false, close: () => {} });
  const changes = new DirectoryChanges({ ...chooseFileSystem(), watch }, 3_600_000);
  using _no = withoutSlowLooks();
  const waiter = changes.enter("/locks/n.lock");
  const { signal } = new AbortController();
  for (let i = 0; i < 4; i++) await within("a look", changes.next(waiter, "unmarked", signal));
  changes.leave(waiter);
  changes.close();
});

Deno.test("DirectoryChanges looks ever more rarely while a file stays locked without a mark", async () => {
  const watch = () => ({ seesKills: false, close: () => {} });
  const changes = new DirectoryChanges({ ...chooseFileSystem(), watch }, 3_600_000);
  const waiter = changes.enter("/locks/n.lock");
  const { signal } = new AbortController();
  const { schedule } = SYSTEM_CLOCK;
  const delays: number[] = [];
  SYSTEM_CLOCK.schedule = (callback, delayMs) => {
    delays.push(delayMs);
    return schedule(callback, 0);
  };
  try {
    await changes.next(waiter, "held", signal); // It was just woken.
    for (let i = 0; i < 8; i++) await changes.next(waiter, "unmarked", signal);
    for (const seen of ["held", "unmarked"] as const) await changes.next(waiter, seen, signal);
  } finally {
    SYSTEM_CLOCK.schedule = schedule;
  }
  const again = delays.pop()!;
  delays.pop(); // that of "held"
  assertEquals(delays.length, 8);
  assert(delays.every((delay, i) => i === 0 || delay > delays[i - 1]!), delays.join(", "));
  assertEquals(again, delays[0], "another holder in between");
  changes.leave(waiter);
  changes.close();
});
