/**
 * When lock files are deleted, which ones stay, and what is left of their tokens.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { Cleaner, deleteUnused } from "../../file/deletion.ts";
import { hasExactId } from "../../file/regular_file.ts";
import { lockPath, someLockFiles } from "../../file/lock_directory.ts";
import { LockedFile, type LockFile, tryLock } from "../../file/locked_file.ts";
import { FileLock } from "../../file/mod.ts";
import { chooseFileSystem } from "../../file/system/choose.ts";
import type { FileSystem } from "../../file/system/port.ts";
import { TokenFile } from "../../file/tokens.ts";
import { startContender } from "../../testing/conformance/process.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { FakeClock } from "../../testing/core/fake_clock.ts";
import { setClockBack } from "../../testing/file/clock_set_back.ts";
import { temporary } from "../../testing/file/lock_directories.ts";
import { countOpens, withClock, withoutWatches } from "../../testing/file/watching.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

const fs = chooseFileSystem();

/** The lock files in a directory. */
function filesIn(dir: string): string[] {
  return [...Deno.readDirSync(dir)].map(({ name }) => name).filter((name) =>
    name.endsWith(".lock")
  );
}

async function use(locks: FileLock, name: string): Promise<bigint> {
  await using lease = await locks.acquire(name);
  return lease.fencingToken;
}

/** Makes a file look as if nobody had touched it for 12 s: 10 s are enough. */
async function age(path: string): Promise<void> {
  const then = Date.now() / 1_000 - 12;
  await Deno.utime(path, then, then);
}

/** A free lock file, as its last holder leaves it. */
function released(dir: string, name: string): LockFile {
  const tokens = new TokenFile(fs, `${dir}/holdfast.tokens`, 0o600);
  const file = { fs, path: lockPath(dir, name), name, isKept: false, tokens };
  const locked = tryLock(file, { lockerId: "0000000a", label: "" }, false);
  assert(locked instanceof LockedFile);
  locked.release();
  return file;
}

Deno.test("FileLock deletes lock files some time after their release", async () => {
  await using temp = await temporary();
  await using locks = new FileLock({ dir: temp.dir });
  await using _held = await locks.acquire("held");
  for (let i = 0; i < 300; i++) await use(locks, `orders:${i}`);
  await waitUntil("only the held file is left", () => filesIn(temp.dir).length === 1);
  assertEquals(filesIn(temp.dir).map((file) => `${temp.dir}/${file}`), [
    lockPath(temp.dir, "held"),
  ]);
});

Deno.test("FileLock deletes the lock files that it has released at its disposal", async () => {
  await using temp = await temporary();
  await using other = new FileLock({ dir: temp.dir });
  await using _theirs = await other.acquire("theirs");
  {
    await using locks = new FileLock({ dir: temp.dir });
    for (let i = 0; i < 300; i++) await use(locks, `orders:${i}`);
    await locks.acquire("held until disposal");
    assertEquals(filesIn(temp.dir).length, 302);
  }
  assertEquals(filesIn(temp.dir).length, 1);
});

Deno.test("Cleaner.close() deletes a file as soon as no other process writes the tokens, and ends also while one does", async () => {
  await using temp = await temporary();
  const path = `${temp.dir}/holdfast.tokens`;
  await Deno.writeTextFile(path, "");
  using writing = await Deno.open(path, { read: true, write: true });
  for (const isEnding of [false, true]) {
    writing.lockSync(true);
    let tries = 0;
    const counting: FileSystem = {
      ...fs,
      open(opened, access) {
        if (opened === path && ++tries === 3 && isEnding) setTimeout(() => writing.unlockSync());
        return fs.open(opened, access);
      },
    };
    const cleaner = new Cleaner(fs);
    const tokens = new TokenFile(counting, path, 0o600);
    cleaner.release({ ...released(temp.dir, "n"), tokens });
    await within("it ends", cleaner.close(3_600_000));
    assertEquals(filesIn(temp.dir).length, isEnding ? 0 : 1);
  }
});

Deno.test("FileLock keeps lock files, with the lock's name in them, with keepFiles", async () => {
  await using temp = await temporary();
  for (let i = 0; i < 2; i++) {
    await using locks = new FileLock({ dir: temp.dir, keepFiles: true });
    await use(locks, "orders:42");
  }
  const text = await Deno.readTextFile(lockPath(temp.dir, "orders:42"));
  assert(text.endsWith('"orders:42"\n'));
  assertEquals(text.split("\n").length, 3);
});

Deno.test("FileLock keeps the lock file when a waiter has marked it", async () => {
  await using temp = await temporary();
  const path = lockPath(temp.dir, "n");
  using _no = withoutWatches();
  await using waiting = new FileLock({ dir: temp.dir, pollIntervalMs: 60_000 });
  const abort = new AbortController();
  {
    await using locks = new FileLock({ dir: temp.dir });
    await using _lease = await locks.acquire("n");
    let isWaiting = false;
    const onWait = () => void (isWaiting = true);
    waiting.acquire("n", { onWait, signal: abort.signal }).catch(() => {});
    await waitUntil("another instance waits", () => isWaiting);
  }
  assertEquals(filesIn(temp.dir).length, 1);
  abort.abort();
  await using locks = new FileLock({ dir: temp.dir });
  await age(path);
  await use(locks, "another");
  await waitUntil("a mark that is old counts no longer", () => filesIn(temp.dir).length === 0);
});

Deno.test("FileLock deletes lock files that killed processes left, and none that is held", async () => {
  await using temp = await temporary();
  const spec = { strategy: "file", dir: temp.dir } as const;
  await using holder = startContender(spec, { do: "hold", name: "held" });
  await using killed = startContender(spec, { do: "hold", name: "left" });
  await within("both hold", Promise.all([holder.line(), killed.line()]));
  killed.kill("SIGKILL");
  await killed.end();
  for (const name of ["held", "left"]) await age(lockPath(temp.dir, name));
  await Deno.writeTextFile(`${temp.dir}/other.lock`, "");
  await age(`${temp.dir}/other.lock`);
  await using locks = new FileLock({ dir: temp.dir });
  await use(locks, "n");
  await waitUntil("the left file is deleted", () => filesIn(temp.dir).length === 2);
  await Deno.stat(lockPath(temp.dir, "held"));
  await Deno.stat(`${temp.dir}/other.lock`);
  assertEquals(await locks.tryAcquire("held"), null);
});

Deno.test("the file of a killed holder does not seem held while a sweep deletes it", async () => {
  await using temp = await temporary();
  const tokens = new TokenFile(fs, `${temp.dir}/holdfast.tokens`, 0o600);
  const file = { fs, path: lockPath(temp.dir, "left"), name: "left", isKept: false, tokens };
  const held = tryLock(file, { lockerId: "0000000a", label: "" }, false);
  assert(held instanceof LockedFile);
  const marked = await Deno.readFile(file.path);
  held.release();
  await Deno.writeFile(file.path, marked); // as it is after a kill
  await age(file.path);
  const seen: unknown[] = [];
  const attempt = () => seen.push(tryLock(file, { lockerId: "0000000b", label: "" }, false));
  const sweeping: FileSystem = {
    ...fs,
    open(path, access) {
      const opened = fs.open(path, access);
      const stat = () => (attempt(), opened.stat()); // it is locked by then
      return path !== file.path ? opened : new Proxy(opened, {
        get: (target, key) => key === "stat" ? stat : Reflect.get(target, key).bind(target),
      });
    },
    unlink: (path) => (attempt(), fs.unlink(path)),
  };
  const cleaner = new Cleaner(sweeping);
  cleaner.release({ ...file, path: lockPath(temp.dir, "another") });
  await waitUntil("the sweep has deleted it", () => filesIn(temp.dir).length === 0);
  await cleaner.close(0);
  assert(seen.length >= 2 && seen.every((result) => result === "unmarked"), seen.join());
});

Deno.test("FileLock deletes many files that killed processes left, one step after the other", async () => {
  await using temp = await temporary();
  await using keeping = new FileLock({ dir: temp.dir, keepFiles: true });
  for (let i = 0; i < 80; i++) await use(keeping, `n${i}`);
  for (let i = 0; i < 80; i++) await age(lockPath(temp.dir, `n${i}`));
  await using locks = new FileLock({ dir: temp.dir });
  await use(locks, "another");
  await waitUntil("all are deleted", () => filesIn(temp.dir).length === 0);
});

Deno.test("Cleaner deletes each file a second after its last release, also behind many that are used all the time, and leaves no timer", async () => {
  await using temp = await temporary();
  const clock = new FakeClock();
  let timers = 0;
  using _clock = withClock({
    now: () => clock.now(),
    wall: () => clock.wall(),
    schedule: (callback, delayMs) => (timers++, clock.schedule(callback, delayMs)),
  });
  const cleaner = new Cleaner(fs);
  await age(released(temp.dir, "left").path);
  cleaner.release(released(temp.dir, "n"));
  await waitUntil("the first sweep is over, which has a timer too", async () => {
    await clock.pass(10);
    return filesIn(temp.dir).length === 0;
  });
  timers = 0;
  const busy = Array.from({ length: 32 }, (_, i) => released(temp.dir, `busy:${i}`));
  for (const file of [...busy, released(temp.dir, "idle")]) cleaner.release(file);
  await clock.pass(500);
  for (const file of busy) cleaner.release(file);
  await clock.pass(499);
  assertEquals(filesIn(temp.dir).length, 33);
  await clock.pass(1);
  assertEquals(filesIn(temp.dir).length, 32, "the idle one is deleted");
  await clock.pass(499);
  assertEquals(filesIn(temp.dir).length, 32);
  await clock.pass(1);
  assertEquals(filesIn(temp.dir), []);
  assertEquals(timers, 2, "it wakes only when a file is due");
  cleaner.release(released(temp.dir, "later"));
  await clock.pass(1_000);
  assertEquals(filesIn(temp.dir), []);
  await cleaner.close(0);
  cleaner.release(released(temp.dir, "after its end"));
  assertEquals(clock.timers, 0);
});

Deno.test("Cleaner deletes 32 files at a time, some ms after one another, and looks once a minute for what killed processes left", async () => {
  await using temp = await temporary();
  const clock = new FakeClock();
  using _clock = withClock(clock);
  for (const [afterMs, count] of [[59_999, 1], [60_000, 0]] as const) {
    for (let i = 0; i < 32; i++) await age(released(temp.dir, `left:${i}`).path);
    const cleaner = new Cleaner(fs);
    const startMs = clock.now();
    cleaner.release(released(temp.dir, "n")); // the sweep finds this one, too
    await clock.pass(1_000);
    await waitUntil("the first sweep is over", async () => {
      await clock.pass(10);
      return filesIn(temp.dir).length === 0;
    });
    for (let i = 0; i < 40; i++) cleaner.release(released(temp.dir, `n${i}`));
    await clock.pass(1_000);
    assertEquals(filesIn(temp.dir).length, 8);
    await clock.pass(4);
    assertEquals(filesIn(temp.dir).length, 8);
    await clock.pass(1);
    assertEquals(filesIn(temp.dir).length, 0);
    const left = released(temp.dir, "left again");
    await age(left.path);
    await clock.pass(startMs + afterMs - clock.now());
    cleaner.release(released(temp.dir, "n"));
    await cleaner.close(1_000);
    assertEquals(filesIn(temp.dir).length, count, `after ${afterMs} ms`);
    await Deno.remove(left.path).catch(() => {});
  }
});

Deno.test("Cleaner tries once a second while another process writes the tokens, also to delete what was left", async () => {
  await using temp = await temporary();
  const clock = new FakeClock();
  using _clock = withClock(clock);
  const path = `${temp.dir}/holdfast.tokens`;
  await Deno.writeTextFile(path, "");
  using writing = Deno.openSync(path, { read: true, write: true });
  for (const isLeft of [false, true]) {
    const file = released(temp.dir, "n");
    if (isLeft) await age(file.path);
    writing.lockSync(true);
    using opens = countOpens(path);
    const cleaner = new Cleaner(fs);
    // One that is gone by then needs no token.
    cleaner.release(isLeft ? { ...file, path: lockPath(temp.dir, "gone") } : file);
    await clock.pass(1_000);
    await waitUntil("it has tried", async () => {
      await clock.pass(10);
      return opens.count > 0;
    });
    const { count } = opens;
    await clock.pass(5_000);
    assertEquals(opens.count, count + 5, isLeft ? "left" : "released");
    writing.unlockSync();
    await clock.pass(1_000);
    assertEquals(filesIn(temp.dir), []);
    await cleaner.close(0);
    assertEquals(clock.timers, 0);
  }
});

Deno.test("someLockFiles() begins with any lock file of the directory, and lists nothing else", async () => {
  await using temp = await temporary();
  const paths = ["a", "b", "c", "d"].map((name) => lockPath(temp.dir, name)).toSorted();
  for (const path of paths) await Deno.writeTextFile(path, "");
  await Deno.writeTextFile(`${temp.dir}/other.lock`, "");
  await Deno.mkdir(lockPath(temp.dir, "directory"));
  const firsts = new Set<string>();
  for (let i = 0; i < 100; i++) {
    assertEquals((await someLockFiles(temp.dir, Infinity)).toSorted(), paths);
    const [first, ...others] = await someLockFiles(temp.dir, 1);
    assertEquals(others, []);
    firsts.add(first!);
  }
  assertEquals([...firsts].toSorted(), paths);
});

Deno.test("Cleaner deletes what killed processes left also when the list comes late, when it has to try again, and at its end", async () => {
  await using temp = await temporary();
  const clock = new FakeClock();
  using _clock = withClock(clock);
  await age(released(temp.dir, "left").path);
  const cleaner = new Cleaner(fs);
  cleaner.release(released(temp.dir, "n"));
  await clock.pass(1_000); // Deno lists the directory after this mostly, and sometimes before.
  await waitUntil("both are deleted", async () => {
    await clock.pass(10);
    return filesIn(temp.dir).length === 0;
  });
  assertEquals(clock.timers, 0);

  cleaner.release(released(temp.dir, "n"));
  using writing = Deno.openSync(`${temp.dir}/holdfast.tokens`, { read: true, write: true });
  writing.lockSync(true);
  await clock.pass(2_500);
  assertEquals(filesIn(temp.dir).length, 1, "another process writes the tokens");
  writing.unlockSync();
  await clock.pass(500);
  assertEquals([filesIn(temp.dir).length, clock.timers], [0, 0]);
  await cleaner.close(0);

  await age(released(temp.dir, "left again").path);
  const short = new Cleaner(fs);
  short.release(released(temp.dir, "n"));
  await short.close(1_000);
  assertEquals([filesIn(temp.dir).length, clock.timers], [0, 0]);
});

Deno.test("Lease.fencingToken grows when the lock file was deleted and the clock was set back", async () => {
  await using temp = await temporary();
  const tokens: bigint[] = [];
  for (const backMs of [0, 3_600_000, 7_200_000]) {
    using _clock = setClockBack(backMs);
    await using locks = new FileLock({ dir: temp.dir });
    for (let i = 0; i < 2; i++) tokens.push(await use(locks, "n"));
    await use(locks, "other");
    using _later = setClockBack(3_600_000); // before the deletion, too
    await locks[Symbol.asyncDispose]();
    assertEquals(filesIn(temp.dir), []);
  }
  assert(tokens.every((token, i) => i === 0 || token > tokens[i - 1]!), tokens.join(", "));
});

Deno.test("Lease.fencingToken grows when the lock file was removed while the clock was set back", async () => {
  await using temp = await temporary();
  await using before = new FileLock({ dir: temp.dir });
  const tokens = [await use(before, "n")];
  await before[Symbol.asyncDispose]();
  using _clock = setClockBack(3_600_000);
  for (let i = 0; i < 3; i++) {
    await using locks = new FileLock({ dir: temp.dir });
    for (let grants = 0; grants <= i; grants++) tokens.push(await use(locks, "n"));
    tokens.push((await locks.acquire("n")).fencingToken);
    await Deno.remove(lockPath(temp.dir, "n"));
  }
  assert(tokens.every((token, i) => i === 0 || token > tokens[i - 1]!), tokens.join(", "));
});

Deno.test("FileLock ends its leases as stolen, and deletes nothing, when another file is at the path", async () => {
  await using temp = await temporary();
  await using locks = new FileLock({ dir: temp.dir });
  const lease = await locks.acquire("n");
  await Deno.remove(lockPath(temp.dir, "n"));
  await using other = new FileLock({ dir: temp.dir });
  await using theirs = await other.acquire("n");
  assertEquals(await lease.release(), false);
  await locks[Symbol.asyncDispose]();
  assertEquals(filesIn(temp.dir).length, 1);
  await theirs.renew();
});

Deno.test("deleteUnused() leaves files that are locked, spared, or no regular file", async () => {
  await using temp = await temporary();
  const tokens = new TokenFile(fs, `${temp.dir}/holdfast.tokens`, 0o600);
  const paths = ["a", "b", "c", "missing"].map((name) => lockPath(temp.dir, name));
  await using keeping = new FileLock({ dir: temp.dir, keepFiles: true });
  const token = await use(keeping, "a");
  await using _lease = await keeping.acquire("b");
  await Deno.symlink("/dev/null", paths[2]!);
  assertEquals(deleteUnused(fs, paths, tokens, () => true), []);
  assertEquals(filesIn(temp.dir).length, 3);
  assertEquals(tokens.read(), 0n);
  assertEquals(deleteUnused(fs, paths, tokens, () => false), []);
  assertEquals(filesIn(temp.dir).length, 2);
  await assertRejects(() => Deno.lstat(paths[0]!), Deno.errors.NotFound);
  assert(tokens.read() >= token);
  await use(keeping, "a");
  using looking = await Deno.open(paths[0]!);
  looking.lockSync(false);
  assertEquals(deleteUnused(fs, [paths[0]!], tokens, () => false), []);
  looking.unlockSync();
  const another: FileSystem = { ...fs, lstat: (path) => ({ ...fs.lstat(path), ino: 1 }) };
  const inexact: FileSystem = {
    ...fs,
    lstat: (path) => ({ ...fs.lstat(path), ino: 2 ** 60 }),
    open(path, access) {
      const opened = fs.open(path, access);
      const stat = () => ({ ...opened.stat(), ino: 2 ** 60 });
      return new Proxy(opened, {
        get: (target, key) => key === "stat" ? stat : Reflect.get(target, key).bind(target),
      });
    },
  };
  for (const system of [another, inexact]) {
    assertEquals(deleteUnused(system, [paths[0]!], tokens, () => false), []);
  }
  await Deno.lstat(paths[0]!); // it is still there
});

Deno.test("deleteUnused() deletes empty files, but no files of other programs", async () => {
  await using temp = await temporary();
  const tokens = new TokenFile(fs, `${temp.dir}/holdfast.tokens`, 0o600);
  const paths = ["empty", "other"].map((name) => lockPath(temp.dir, name));
  await Deno.writeTextFile(paths[0]!, "");
  await Deno.writeTextFile(paths[1]!, "x"); // by another program
  assertEquals(deleteUnused(fs, paths, tokens, () => false), []);
  assertEquals(tokens.read(), 0n, "an empty file has no token");
  assertEquals(filesIn(temp.dir).map((name) => `${temp.dir}/${name}`), [paths[1]]);
});

Deno.test("deleteUnused() returns the paths that are left while another process writes the tokens", async () => {
  await using temp = await temporary();
  const tokens = new TokenFile(fs, `${temp.dir}/holdfast.tokens`, 0o600);
  await using keeping = new FileLock({ dir: temp.dir, keepFiles: true });
  for (const name of ["a", "b"]) await use(keeping, name);
  const paths = ["a", "b"].map((name) => lockPath(temp.dir, name));
  tokens.raise(1n);
  {
    using file = await Deno.open(`${temp.dir}/holdfast.tokens`, { read: true, write: true });
    assert(file.tryLockSync(true));
    assertEquals(deleteUnused(fs, paths, tokens, () => false), paths);
    assertEquals(filesIn(temp.dir).length, 2);
  }
  using opens = countOpens(`${temp.dir}/holdfast.tokens`);
  assertEquals(deleteUnused(fs, paths, tokens, () => false), []);
  assertEquals(filesIn(temp.dir), []);
  assertEquals(opens.count, 1, "once for both files");
});

Deno.test("hasExactId() is false for a file whose number Deno rounds, on Node and Bun as well", () => {
  assertEquals(hasExactId({ ino: 2 ** 53 - 1, dev: 1 }), true);
  assertEquals(hasExactId({ ino: 2 ** 53, dev: 1 }), false);
  assertEquals(hasExactId({ ino: 1, dev: 2 ** 60 }), false);
  assertEquals(hasExactId({ ino: 0, dev: 1 }), false);
  assertEquals(hasExactId({ ino: null, dev: 1 }), false);
  assertEquals(hasExactId({ ino: 2n ** 53n - 1n, dev: 1n }), true);
  assertEquals(hasExactId({ ino: 2n ** 53n + 1n, dev: 1n }), false, "Deno may compare it");
  assertEquals(hasExactId({ ino: 1n, dev: 2n ** 60n }), false);
  assertEquals(hasExactId({ ino: 0n, dev: 1n }), false);
});
