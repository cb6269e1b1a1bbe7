/**
 * The file system of each runtime: the choice, the errors of `flock`, the clock and the watch.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { constants } from "node:os";
import process from "node:process";
import { chooseFileSystem } from "../../file/system/choose.ts";
import { bunInotify, firstOf } from "../../file/system/bun.ts";
import type { Inotify } from "../../file/system/inotify.ts";
import { nodeInotify } from "../../file/system/node.ts";
import { nodeFileSystem, wallClock } from "../../file/system/node_fs.ts";
import { LockSetupError } from "../../mod.ts";
import { temporary } from "../../testing/file/lock_directories.ts";

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
    watching?.();
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

Deno.test("OpenFile on Node never waits for a lock, and locks no other file after its close", async () => {
  await using temp = await temporary();
  const path = `${temp.dir}/file`;
  await Deno.writeTextFile(path, "");
  const calls: [fd: number, operation: number][] = [];
  const flock = (fd: number, operation: number) => (calls.push([fd, operation]), 0);
  const file = nodeFileSystem({ flock, inotify: null }).open(path, "read");
  file.tryLock(false);
  file.tryLock(true);
  file.unlock();
  assertEquals(calls.map(([, operation]) => operation), [1 | 4, 2 | 4, 8]);
  file.close();
  file.tryLock(true);
  assertEquals(calls.at(-1)?.[0], -1, "the system gives the number to another file");
});

Deno.test("FileSystem.makeDirectory() on Node makes those above as well, accepts one that exists, and fails below a file", async () => {
  await using temp = await temporary();
  const { makeDirectory } = nodeFileSystem({ flock: () => 0, inotify: null });
  for (let i = 0; i < 2; i++) makeDirectory(`${temp.dir}/a/b/c`, 0o700);
  for (const dir of ["a", "a/b", "a/b/c"]) {
    assertEquals((await Deno.stat(`${temp.dir}/${dir}`)).mode! & 0o777, 0o700);
  }
  await Deno.writeTextFile(`${temp.dir}/file`, "");
  assertThrows(() => makeDirectory(`${temp.dir}/file/below`, 0o700));
});

Deno.test("Inotify on Node closes what it has opened when the system refuses more descriptors", () => {
  const cases = [
    [{ inotify_init1: -1, pipe2: 0 }, [-1, -1, -1]],
    [{ inotify_init1: 7, pipe2: -1 }, [-1, -1, 7]],
  ] as const;
  for (const [results, expected] of cases) {
    const closed: unknown[] = [];
    const func = (prototype: string) => (fd: unknown) => {
      const [, name] = /(\w+)\(/.exec(prototype)!;
      return name === "close" ? closed.push(fd) : results[name as "pipe2"];
    };
    const inotify = nodeInotify({ func });
    const open = () => inotify.open(() => {}, () => {});
    assertThrows(open, Error, "no more descriptors");
    assertEquals(closed, [...expected]);
  }
});

Deno.test("Inotify on Bun reads all events at each signal until its end, and closes what it has opened when the system refuses", () => {
  const { on, off } = process;
  const listeners: (() => void)[] = [];
  const events: number[] = [];
  const [closed, reads]: [number[], number[]] = [[], []];
  let fds = 7;
  let refused = -1;
  const inotify = bunInotify({
    inotify_init1: () => refused === 0 ? -1 : fds++,
    inotify_add_watch: () => 1,
    fcntl: (_fd, command) => command === refused ? -1 : 0,
    read: (fd) => (reads.push(fd), events.shift() ?? -1),
    close: (fd) => closed.push(fd),
  });
  const open = (onEvents: (bytes: Uint8Array) => void) => inotify.open(onEvents, () => {});
  const seen: number[] = [];
  const onEvents = (bytes: Uint8Array) => void seen.push(bytes.length);
  try {
    Object.assign(process, {
      on: (_name: string, each: () => void) => void listeners.push(each),
      off: (_name: string, each: () => void) => void listeners.splice(listeners.indexOf(each), 1),
    });
    for (const command of [4, 8, 10]) {
      refused = command;
      assertThrows(() => open(onEvents), Error, "does not send signals");
    }
    assertEquals([closed, listeners.length], [[7, 8, 9], 0]);
    refused = 0;
    assertThrows(() => open(onEvents), Error, "no more descriptors");
    assertEquals([closed, listeners.length], [[7, 8, 9], 0]);
    refused = -1;
    const first = open(onEvents);
    const second: ReturnType<Inotify["open"]> = open((bytes) => {
      onEvents(bytes);
      second.close();
    });
    assertEquals([first.fd, second.fd, listeners.length], [10, 11, 1]);
    events.push(16, 32, -1, 48, 64);
    listeners[0]!();
    assertEquals([seen, reads], [[16, 32, 48], [10, 10, 10, 11]]);
    assertEquals([closed, listeners.length], [[7, 8, 9, 11], 1]);
    first.close();
    assertEquals([closed, listeners.length], [[7, 8, 9, 11, 10], 0]);
  } finally {
    Object.assign(process, { on, off });
  }
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
      const fractions = new Set<bigint>();
      for (let i = 0; i < 5_000; i++) {
        const earliest = BigInt(Date.now()) * 1_000n;
        const us = nowUs();
        const latest = BigInt(Date.now() + 1) * 1_000n;
        assert(earliest <= us && us < latest, `${us} is not from ${earliest} to ${latest}`);
        assert(us >= last, "it went back");
        last = us;
        fractions.add(us % 1_000n);
      }
      assert(fractions.size > 3, "also after it was set");
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
