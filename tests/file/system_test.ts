/**
 * The file system of each runtime: the choice, the errors of `flock`, the clock and the watch.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { constants } from "node:os";
import process from "node:process";
import { chooseFileSystem } from "../../file/system/choose.ts";
import { firstOf } from "../../file/system/bun.ts";
import { nodeFileSystem, wallClock } from "../../file/system/node_fs.ts";
import { LockSetupError } from "../../mod.ts";

for (const runtime of ["node", "bun", "deno"]) {
  Deno.test(`chooseFileSystem() throws a LockSetupError in ${runtime} on Windows`, () => {
    const versions = { node: "22.0.0", [runtime]: runtime === "deno" ? "2.9.6" : "1.0.0" };
    const error = assertThrows(
      () => chooseFileSystem({ versions, platform: "win32" }),
      LockSetupError,
      "on Windows no process can read a file",
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

Deno.test("OpenFile.tryLock() on Node is false for EWOULDBLOCK alone, and throws any other error", () => {
  const { EWOULDBLOCK } = constants.errno;
  const path = Deno.makeTempFileSync();
  const attempt = (errno: number, call: "tryLock" | "unlock" = "tryLock") => {
    const file = nodeFileSystem({ flock: () => errno, inotify: null }).open(path, "read");
    try {
      return file[call](true);
    } finally {
      file.close();
    }
  };
  assertEquals(attempt(0), true);
  assertEquals(attempt(EWOULDBLOCK), false);
  assertThrows(() => attempt(EWOULDBLOCK, "unlock"));
  for (const [code, errno] of [...Object.entries(constants.errno), ["", -1]] as const) {
    if (errno === EWOULDBLOCK) continue;
    const error = assertThrows(() => attempt(errno), Error, `errno ${errno}`);
    const number = constants.errno[(error as NodeJS.ErrnoException).code as "EPERM"];
    assertEquals(number, code === "" ? undefined : errno);
  }
  Deno.removeSync(path);
});

Deno.test("FileSystem.uid() on Node is the effective user, to whom new files belong", () => {
  const { getuid, geteuid } = process;
  try {
    process.getuid = () => 0;
    process.geteuid = () => 1_000;
    assertEquals(nodeFileSystem({ flock: () => 0, inotify: null }).uid(), 1_000);
  } finally {
    Object.assign(process, { getuid, geteuid });
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
