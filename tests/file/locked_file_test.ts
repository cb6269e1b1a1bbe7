/**
 * The marks of a lock file, by which processes take turns: "wanted", and how many grants in a row one
 * instance got.
 */
import { existsSync } from "node:fs";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { lockPath } from "../../file/lock_directory.ts";
import { deleteUnused } from "../../file/deletion.ts";
import { LockedFile, look, observe, readName, tryLock } from "../../file/locked_file.ts";
import { chooseFileSystem } from "../../file/system/choose.ts";
import type { FileSystem, OpenFile } from "../../file/system/port.ts";
import { SetupFailure } from "../../file/failures.ts";
import { TokenFile } from "../../file/tokens.ts";
import { temporary } from "../../testing/file/lock_directories.ts";

const FAIR_STREAK = 8;
const GREEDY = { lockerId: "0000000a", label: "greedy" };
const OTHER = { lockerId: "0000000b", label: "other" };

/** The file of one lock. */
function fileIn(dir: string, fs: FileSystem = chooseFileSystem(), isKept = false) {
  const path = lockPath(dir, "n");
  const tokens = new TokenFile(fs, `${dir}/holdfast.tokens`, 0o600);
  const file = { fs, path, name: "n", mode: 0o600, isKept, tokens };
  return {
    tryLock: (locker: typeof GREEDY) => tryLock(file, locker, true),
    look: () => look(fs, path),
    observe: () => observe(fs, path),
    readName: () => readName(fs, path),
    readTokens: () => tokens.read(),
    tokens: `${dir}/holdfast.tokens`,
    path,
  };
}

function assertLocked(result: unknown): asserts result is LockedFile {
  assert(result instanceof LockedFile, String(result));
}

Deno.test("tryLock() writes to no file that got a second name after it was opened", async () => {
  await using temp = await temporary();
  const fs = chooseFileSystem();
  const { path } = fileIn(temp.dir);
  await Deno.writeTextFile(path, "precious");
  const linking = (file: OpenFile): OpenFile => ({
    tryLock: (isExclusive) => file.tryLock(isExclusive),
    unlock: () => file.unlock(),
    stat() {
      const info = file.stat();
      Deno.linkSync(path, `${temp.dir}/other`);
      return info;
    },
    read: (offset, bytes) => file.read(offset, bytes),
    write: (offset, bytes) => file.write(offset, bytes),
    close: () => file.close(),
  });
  const open: FileSystem["open"] = (path, access) => linking(fs.open(path, access));
  const file = fileIn(temp.dir, { ...fs, open });
  assertThrows(() => file.tryLock(OTHER), SetupFailure, "second name");
  assertEquals(await Deno.readTextFile(path), "precious");
});

Deno.test("tryLock() yields after 8 grants in a row when another process waits, and not before", async () => {
  // Any waiter that tries marks the file, whenever it comes. The grants after that keep the mark.
  for (const markedAt of [1, 2, FAIR_STREAK]) {
    await using temp = await temporary();
    const file = fileIn(temp.dir);
    for (let grants = 1; grants <= FAIR_STREAK; grants++) {
      const held = file.tryLock(GREEDY);
      assertLocked(held);
      if (grants === markedAt) assertEquals(file.tryLock(OTHER), "held");
      held.release();
    }
    assertEquals(file.tryLock(GREEDY), "yield");
    assertEquals(file.tryLock(GREEDY), "yield", "until another one has had its turn");
    const theirs = file.tryLock(OTHER);
    assertLocked(theirs);
    theirs.release();
    for (let grants = 1; grants <= 2 * FAIR_STREAK; grants++) {
      const held = file.tryLock(GREEDY);
      assertLocked(held); // that grant has cleared the mark
      held.release();
    }
  }
});

Deno.test("tryLock() does not yield when no other process waits", async () => {
  await using temp = await temporary();
  const file = fileIn(temp.dir);
  for (let grants = 1; grants <= 3 * FAIR_STREAK; grants++) {
    const held = file.tryLock(GREEDY);
    assertLocked(held);
    const seen = file.observe();
    assert(typeof seen === "object");
    assertEquals(seen.streak, (grants - 1) % FAIR_STREAK + 1);
    held.release();
  }
});

Deno.test("look() sends a waiter to mark the file, once, when its holder was granted it twice in a row", async () => {
  await using temp = await temporary();
  const file = fileIn(temp.dir);
  const first = file.tryLock(GREEDY);
  assertLocked(first);
  assertEquals(file.look(), "held", "at the first grant");
  first.release();
  assertEquals(file.look(), "free");
  const second = file.tryLock(GREEDY);
  assertLocked(second);
  assertEquals(file.look(), "free", "it must be marked");
  assertEquals(file.tryLock(OTHER), "held");
  assertEquals(file.look(), "held", "it is marked");
  const seen = file.observe();
  assert(
    typeof seen === "object" && seen.wanted && seen.streak === 2,
    JSON.stringify(String(seen)),
  );
  second.release();
  using other = await Deno.open(file.path, { read: true, write: true });
  other.lockSync(false);
  assertEquals(file.look(), "free", "others may look as well");
  other.lockSync(true);
  assertEquals(file.look(), "unmarked");
});

Deno.test("tryLock() and observe() give up when the path leads to another file at each look", async () => {
  await using temp = await temporary();
  const fs = chooseFileSystem();
  const held = fileIn(temp.dir).tryLock(OTHER);
  assertLocked(held);
  let looks = 0;
  const unsteady: FileSystem = Object.assign(Object.create(fs), {
    lstat: (path: string) => ({ ...fs.lstat(path), ino: ++looks / 2 }),
  });
  const file = fileIn(temp.dir, unsteady);
  for (const look of [() => file.tryLock(GREEDY), file.observe]) {
    looks = 0;
    assertThrows(look, Error, "is another one at each look");
    assert(looks >= 1_000 && looks <= 3_000, `${looks} looks`);
  }
  assertEquals(file.look(), "free", "another file is there");
  held.release();
});

/** A file on a disk that is full after a few more bytes. */
function onFullDisk(file: OpenFile): OpenFile {
  return {
    tryLock: (isExclusive) => file.tryLock(isExclusive),
    unlock: () => file.unlock(),
    stat: () => file.stat(),
    read: (offset, bytes) => file.read(offset, bytes),
    write: (offset, bytes) => file.write(offset, bytes.subarray(0, 5)),
    close: () => file.close(),
  };
}

Deno.test("tryLock() throws and leaves no file when the disk is full in the middle of its record", async () => {
  await using temp = await temporary();
  const fs = chooseFileSystem();
  const full: FileSystem = Object.assign(Object.create(fs), {
    create: (path: string, mode: number) => onFullDisk(fs.create(path, mode)),
  });
  const file = fileIn(temp.dir, full);
  assertThrows(() => file.tryLock(GREEDY), Error, "Wrote only 5 of");
  assertEquals([...Deno.readDirSync(temp.dir)], []);
  const held = fileIn(temp.dir).tryLock(OTHER);
  assertLocked(held);
  held.release();
});

Deno.test("tryLock() on a full disk leaves the new file with keepFiles, or if its number is not exact", async () => {
  const fs = chooseFileSystem();
  for (const [isKept, ino, files] of [[false, 7, 0], [true, 7, 1], [false, 2 ** 60, 1]] as const) {
    await using temp = await temporary();
    const full: FileSystem = {
      ...fs,
      lstat: (path) => ({ ...fs.lstat(path), ino }),
      create(path, mode) {
        const file = onFullDisk(fs.create(path, mode));
        return { ...file, stat: () => ({ ...file.stat(), ino }) };
      },
    };
    assertThrows(() => fileIn(temp.dir, full, isKept).tryLock(GREEDY), Error, "Wrote only 5 of");
    assertEquals([...Deno.readDirSync(temp.dir)].length, files);
  }
});

Deno.test("tryLock() writes the lock's name into a new file, and leaves it there", async () => {
  await using temp = await temporary();
  const file = fileIn(temp.dir);
  for (let grants = 1; grants <= 3; grants++) {
    const held = file.tryLock(OTHER);
    assertLocked(held);
    held.release();
    const text = await Deno.readTextFile(held.file.path);
    assertEquals(text.split("\n").slice(1), ['"n"', ""]);
  }
  const fs = chooseFileSystem();
  let times = 0;
  const deleted: FileSystem = {
    ...fs,
    open(path, access) {
      if (times++ === 0) Deno.removeSync(path); // another process does
      return fs.open(path, access);
    },
  };
  const created: FileSystem = {
    ...fs,
    create(path, mode) {
      if (times++ === 0) Deno.writeTextFileSync(path, ""); // another process does
      return fs.create(path, mode);
    },
  };
  for (const system of [deleted, created]) {
    times = 0;
    const held = fileIn(temp.dir, system).tryLock(OTHER);
    assertLocked(held);
    held.release();
    assert(times > 0);
    await Deno.remove(file.path);
  }
});

Deno.test("tryLock() marks a locked file once, and never writes to one that has no record", async () => {
  await using temp = await temporary();
  const file = fileIn(temp.dir);
  const held = file.tryLock(GREEDY);
  assertLocked(held);
  const { path } = held.file;
  assertEquals(file.tryLock(OTHER), "held");
  // Each write would wake the waiters of all processes.
  const before = new Date(1_000);
  await Deno.utime(path, before, before);
  assertEquals(file.tryLock(OTHER), "held");
  assertEquals((await Deno.stat(path)).mtime, before);
  held.release();

  await Deno.remove(path);
  using foreign = await Deno.open(path, { write: true, createNew: true });
  await Deno.chmod(path, 0o600);
  foreign.lockSync(true);
  assertEquals(file.tryLock(OTHER), "unmarked");
  assertEquals((await Deno.stat(path)).size, 0);
});

Deno.test("tryLock() does not take the mark of a killed holder for a holder while another one looks", async () => {
  await using temp = await temporary();
  const file = fileIn(temp.dir);
  const held = file.tryLock(GREEDY);
  assertLocked(held);
  const { path } = held.file;
  const marked = await Deno.readFile(path);
  held.release();
  await Deno.writeFile(path, marked); // as it is after a kill
  {
    using looking = await Deno.open(path);
    looking.lockSync(false);
    assertEquals(file.tryLock(OTHER), "unmarked", "it may be free in a moment");
  }
  const theirs = file.tryLock(OTHER);
  assertLocked(theirs);
  theirs.release();
});

Deno.test("LockedFile.release() clears the mark when the path cannot be looked at", async () => {
  await using temp = await temporary();
  const fs = chooseFileSystem();
  let isFailing = false;
  const failing: FileSystem = Object.assign(Object.create(fs), {
    lstat(path: string) {
      if (isFailing) throw Object.assign(new Error("made by a test"), { code: "EACCES" });
      return fs.lstat(path);
    },
  });
  const held = fileIn(temp.dir, failing).tryLock(GREEDY);
  assertLocked(held);
  isFailing = true;
  assertEquals(held.release(), false);
  // Another program that locks the file now is not taken for the former holder.
  using foreign = await Deno.open(held.file.path, { write: true });
  foreign.lockSync(true);
  assertEquals(fileIn(temp.dir).observe(), "unmarked");
});

Deno.test("LockedFile.release() unlocks and answers when the file system fails to close the file", async () => {
  await using temp = await temporary();
  const fs = chooseFileSystem();
  const failing: FileSystem = Object.assign(Object.create(fs), {
    create(path: string, mode: number) {
      const file = fs.create(path, mode);
      const close = () => {
        file.close(); // the kernel frees the descriptor in any case
        throw Object.assign(new Error("made by a test"), { code: "EIO" });
      };
      return new Proxy(file, {
        get: (target, key) => key === "close" ? close : Reflect.get(target, key).bind(target),
      });
    },
  });
  const held = fileIn(temp.dir, failing).tryLock(GREEDY);
  assertLocked(held);
  assertEquals(held.release(), true);
  assertEquals(fileIn(temp.dir).observe(), "free");
});

Deno.test("each file is unlocked before it is closed: a process that is just starting has a copy of it", async () => {
  await using temp = await temporary();
  const fs = chooseFileSystem();
  const wasFree: boolean[] = [];
  const checked = (file: OpenFile, path: string): OpenFile => {
    const close = () => {
      if (existsSync(path)) {
        using other = Deno.openSync(path);
        wasFree.push(other.tryLockSync(true));
      }
      file.close();
    };
    return new Proxy(file, {
      get: (target, key) => key === "close" ? close : Reflect.get(target, key).bind(target),
    });
  };
  const checking: FileSystem = {
    ...fs,
    open: (path, access) => checked(fs.open(path, access), path),
    create: (path, mode) => checked(fs.create(path, mode), path),
  };
  const file = fileIn(temp.dir, checking);
  for (let grants = 1; grants <= FAIR_STREAK; grants++) {
    const held = file.tryLock(GREEDY);
    assertLocked(held);
    if (grants === FAIR_STREAK) assertEquals(fileIn(temp.dir).tryLock(OTHER), "held");
    held.release();
  }
  assertEquals([file.look(), file.observe(), file.tryLock(GREEDY)], ["free", "free", "yield"]);
  assertEquals(file.readName(), "n");
  // The first one spares the file; the second one deletes it, and writes that of the tokens.
  deleteUnused(checking, [file.path], new TokenFile(checking, file.tokens, 0o600), () => true);
  deleteUnused(checking, [file.path], new TokenFile(checking, file.tokens, 0o600), () => false);
  assertEquals(wasFree, Array.from({ length: FAIR_STREAK + 6 }, () => true));
});

Deno.test("a shared file that another user is just creating is not there yet, and later an error", async () => {
  await using temp = await temporary();
  const open = () => {
    throw Object.assign(new Error("made by a test"), { code: "EACCES" });
  };
  const file = fileIn(temp.dir, { ...chooseFileSystem(), open });
  const calls = ["look", "observe", "readName", "readTokens"] as const;
  for (const path of [file.path, file.tokens]) await Deno.writeTextFile(path, "");
  const seen = calls.map((call) => file[call]());
  assertEquals([file.tryLock(OTHER), ...seen], ["unmarked", "free", "free", null, 0n]);
  for (const path of [file.path, file.tokens]) await Deno.writeTextFile(path, "text");
  for (const call of calls) assertThrows(file[call], Error, "made by a test");
  assertThrows(() => file.tryLock(OTHER), Error, "made by a test");
  for (const path of [file.path, file.tokens]) {
    await Deno.truncate(path);
    const then = Date.now() / 1_000 - 3; // another user needs less than 2 s
    await Deno.utime(path, then, then);
  }
  for (const call of calls) assertThrows(file[call], Error, "made by a test");
  assertThrows(() => file.tryLock(OTHER), Error, "made by a test");
});
