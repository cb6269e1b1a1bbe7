/**
 * The directory of `FileLock`: its default, its owner and mode, and links in it.
 */
import { dirname } from "node:path";
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { LockDirectory, lockPath } from "../../file/lock_directory.ts";
import { FileLock, type FileLockOptions } from "../../file/mod.ts";
import { chooseFileSystem } from "../../file/system/choose.ts";
import type { FileInfo, FileSystem } from "../../file/system/port.ts";
import { checkTrusted } from "../../file/trust.ts";
import { LockSetupError, LockUnavailableError } from "../../mod.ts";
import { asNobody, asRoot, attempt, NOBODY } from "../../testing/file/attempts.ts";
import { temporary } from "../../testing/file/lock_directories.ts";
import { pause } from "../../testing/servers/wait.ts";

/** Runs a command as `nobody`. */
async function nobody(command: string): Promise<void> {
  const { success } = await new Deno.Command("sh", {
    ...{ args: ["-c", command], uid: NOBODY, gid: NOBODY, clearEnv: true },
  }).output();
  assert(success, command);
}

/** Asserts that all three calls reject with a `LockSetupError` that names the lock. */
async function assertRefused(options: FileLockOptions, why: RegExp): Promise<void> {
  await using locks = new FileLock(options);
  await assertRefusedBy(locks, why);
}

async function assertRefusedBy(locks: FileLock, why: RegExp): Promise<void> {
  const calls = [() => locks.acquire("n"), () => locks.tryAcquire("n"), () => locks.query("n")];
  for (const call of calls) {
    const error = await assertRejects<Error>(call, LockSetupError);
    assertMatch(error.message, why);
    assertEquals((error as LockSetupError).lockName, "n");
  }
}

async function assertAccepted(options: FileLockOptions): Promise<void> {
  await using locks = new FileLock(options);
  await using lease = await locks.acquire("n");
  lease.throwIfLost();
}

asRoot(
  "FileLock refuses the default directory that another user made, and writes nothing through its links",
  async () => {
    await using temp = await temporary(0o1777);
    const secret = `${temp.dir}/secret`;
    await Deno.writeTextFile(secret, "root's own text", { mode: 0o600 });
    for (const dir of [`${temp.dir}/holdfast`, `${temp.dir}/holdfast-0`]) {
      await nobody(`mkdir -m 755 ${dir} && ln -s ${secret} ${lockPath(dir, "n")}`);
    }
    const env = { XDG_RUNTIME_DIR: "", TMPDIR: temp.dir };
    const outcome = await attempt({ options: {}, call: "tryAcquire" }, { env });
    assertEquals(await Deno.readTextFile(secret), "root's own text");
    assertEquals(outcome.result, "LockSetupError", outcome.message);
    assertEquals(outcome.code, "ERR_LOCK_SETUP");
    assertMatch(outcome.message!, /belongs to another user/);
  },
);

Deno.test("LockDirectory.tryLock() tries again once, and only when the directory may have been removed", async () => {
  await using temp = await temporary();
  for (const [code, expected] of [["ENOENT", 2], ["EIO", 1]] as const) {
    let tries = 0;
    const create = () => {
      tries++;
      throw Object.assign(new Error("refused"), { code });
    };
    const fs = { ...chooseFileSystem(), create };
    const directory = new LockDirectory(fs, {
      ...{ dir: `${temp.dir}/locks`, sharedDir: false, keepFiles: false },
    });
    const how = { looksFirst: false, mayYield: true };
    assertThrows(() => directory.tryLock("n", "", how), LockUnavailableError, "refused");
    assertEquals(tries, expected, code);
  }
});

Deno.test("LockDirectory checks its directory once, and again when its mode has changed", async () => {
  await using temp = await temporary();
  const how = { looksFirst: false, mayYield: false };
  const fs = chooseFileSystem();
  for (const sharedDir of [false, true]) {
    let checks = 0;
    const counting: FileSystem = {
      ...fs,
      realPath: (path) => (checks++, fs.realPath(path)), // of a private directory
      stat: (path) => (checks++, fs.stat(path)), // of a shared one
    };
    const options = { dir: temp.dir, sharedDir, keepFiles: true };
    const directory = new LockDirectory(counting, options);
    const use = () => {
      const locked = directory.tryLock("n", "", how);
      assert(typeof locked === "object", String(locked));
      locked.release();
    };
    for (let i = 0; i < 3; i++) use();
    assertEquals(checks, 1, `sharedDir: ${sharedDir}`);
    if (sharedDir) continue;
    await Deno.chmod(temp.dir, 0o777);
    assertThrows(use, LockSetupError, "can be written to by other users");
    await Deno.chmod(temp.dir, 0o700);
    use();
  }
});

Deno.test("LockDirectory checks another directory of the same user and mode at its path", async () => {
  await using temp = await temporary();
  const dir = `${temp.dir}/locks`;
  const fs = chooseFileSystem();
  let checks = 0;
  const counting: FileSystem = { ...fs, realPath: (path) => (checks++, fs.realPath(path)) };
  const directory = new LockDirectory(counting, { dir, sharedDir: false, keepFiles: true });
  for (const expected of [1, 2]) {
    await Deno.mkdir(dir, { mode: 0o700 });
    for (let i = 0; i < 2; i++) assertEquals(directory.observe("n"), "free");
    assertEquals(checks, expected);
    await Deno.rename(dir, `${dir}-${expected}`);
  }
});

Deno.test("LockDirectory is by default in the user's own runtime directory, else in the first temporary one that is set", async () => {
  await using temp = await temporary();
  const fs = chooseFileSystem();
  const { uid } = fs.stat(temp.dir);
  const pathFor = (user: number | null, env: Record<string, string>) => {
    const system: FileSystem = { ...fs, uid: () => user, env: (name) => env[name] };
    return new LockDirectory(system, { sharedDir: false, keepFiles: false }).path;
  };
  const [XDG_RUNTIME_DIR, TMPDIR] = [temp.dir, "/t"];
  assertEquals(pathFor(uid, { XDG_RUNTIME_DIR, TMPDIR }), `${temp.dir}/holdfast`);
  assertEquals(pathFor(uid! + 1, { XDG_RUNTIME_DIR, TMPDIR }), `/t/holdfast-${uid! + 1}`);
  const missing = `${temp.dir}/missing`;
  assertEquals(pathFor(7, { XDG_RUNTIME_DIR: missing, TMPDIR }), "/t/holdfast-7");
  assertEquals(pathFor(7, { TMPDIR: "", TMP: "/u", TEMP: "/v" }), "/u/holdfast-7");
  assertEquals(pathFor(null, { TEMP: "/v" }), "/v/holdfast");
  assertEquals(pathFor(null, {}), "/tmp/holdfast");
});

asRoot("FileLock refuses a 'dir' that another user made, unless sharedDir allows it", async () => {
  await using temp = await temporary(0o1777);
  const dir = `${temp.dir}/locks`;
  await nobody(`mkdir -m 755 ${dir}`);
  await assertRefused({ dir }, /belongs to another user \(65534\)/);
  await assertAccepted({ dir, sharedDir: true });
});

asRoot("FileLock refuses a directory below one that another user owns", async () => {
  await using temp = await temporary(0o1777);
  await nobody(`mkdir -m 755 ${temp.dir}/theirs`);
  await Deno.mkdir(`${temp.dir}/theirs/ours/locks`, { recursive: true, mode: 0o700 });
  await assertRefused({ dir: `${temp.dir}/theirs/ours/locks` }, /theirs" belongs to another user/);
});

asRoot("FileLock refuses a directory that is reached through another user's link", async () => {
  await using temp = await temporary(0o1777);
  await Deno.mkdir(`${temp.dir}/a/locks`, { recursive: true, mode: 0o700 });
  await nobody(`ln -s ${temp.dir}/a ${temp.dir}/link`);
  await assertRefused({ dir: `${temp.dir}/link/locks` }, /link" belongs to another user/);
});

Deno.test("FileLock refuses a directory when others may replace a link that a link leads to", async () => {
  await using temp = await temporary();
  const open = `${temp.dir}/open`;
  await Deno.mkdir(`${temp.dir}/safe/locks`, { recursive: true, mode: 0o700 });
  await Deno.mkdir(`${open}/below`, { recursive: true, mode: 0o700 });
  await Deno.symlink(`${open}/below/../second`, `${temp.dir}/first`);
  await Deno.symlink("../safe", `${open}/second`);
  const options = { dir: `${temp.dir}/first/locks` };
  await Deno.chmod(open, 0o777);
  await assertRefused(options, /other users may write to ".*open"/);
  await Deno.chmod(open, 0o1777);
  await assertAccepted(options);
});

asRoot("FileLock refuses a directory when a link leads to another user's link", async () => {
  await using temp = await temporary(0o1777);
  await Deno.mkdir(`${temp.dir}/safe/locks`, { recursive: true, mode: 0o700 });
  await Deno.symlink("second", `${temp.dir}/first`);
  await nobody(`ln -s ${temp.dir}/safe ${temp.dir}/second`);
  await assertRefused({ dir: `${temp.dir}/first/locks` }, /second" belongs to another user/);
});

Deno.test("checkTrusted() gives up when links lead in circles", async () => {
  await using temp = await temporary();
  await Deno.mkdir(`${temp.dir}/real/locks`, { recursive: true, mode: 0o700 });
  await Deno.symlink("real", `${temp.dir}/link`);
  const readLink = () => "link"; // changed just now
  const fs: FileSystem = Object.assign(Object.create(chooseFileSystem()), { readLink });
  assertThrows(() => checkTrusted(fs, `${temp.dir}/link/locks`), Error, "too many links");
});

Deno.test("FileLock refuses a directory that is a link, unless sharedDir allows it", async () => {
  await using temp = await temporary();
  await Deno.mkdir(`${temp.dir}/real`, { mode: 0o700 });
  await Deno.symlink(`${temp.dir}/real`, `${temp.dir}/link`);
  await assertRefused({ dir: `${temp.dir}/link` }, /is a link/);
  await assertAccepted({ dir: `${temp.dir}/link`, sharedDir: true });
  await assertAccepted({ dir: `${temp.dir}/real` });
});

Deno.test("FileLock refuses a directory that others may write to, unless sharedDir allows it", async () => {
  await using temp = await temporary();
  const dir = `${temp.dir}/locks`;
  await Deno.mkdir(dir);
  for (const mode of [0o720, 0o702, 0o777, 0o1777]) {
    await Deno.chmod(dir, mode);
    const shown = (mode & 0o777).toString(8);
    await assertRefused({ dir }, new RegExp(`written to by other users \\(mode ${shown}\\)`));
    await assertAccepted({ dir, sharedDir: true });
  }
  await Deno.chmod(dir, 0o755);
  await assertAccepted({ dir });
});

Deno.test("FileLock refuses a directory when others may replace it or one above it", async () => {
  await using temp = await temporary();
  const dir = `${temp.dir}/a/b/locks`;
  await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
  for (const above of [`${temp.dir}/a/b`, `${temp.dir}/a`]) {
    for (const mode of [0o777, 0o770]) {
      await Deno.chmod(above, mode);
      await assertRefused({ dir }, /other users may write to .*, and so replace the directory/);
      await assertAccepted({ dir, sharedDir: true });
    }
    await Deno.chmod(above, 0o1777);
    await assertAccepted({ dir });
  }
});

Deno.test("FileLock checks the directory again when another one is at its path", async () => {
  await using temp = await temporary();
  const dir = `${temp.dir}/locks`;
  await using locks = new FileLock({ dir });
  await (await locks.acquire("n")).release();
  await Deno.remove(dir, { recursive: true });
  await Deno.mkdir(dir);
  await Deno.chmod(dir, 0o777);
  await assertRefusedBy(locks, /can be written to by other users/);
  await assertRejects(() => Array.fromAsync(locks.list()), LockSetupError, "other users");
  assertEquals([...Deno.readDirSync(dir)], []);
  await Deno.chmod(dir, 0o700);
  await (await locks.acquire("n")).release();
});

asRoot(
  "FileLock checks the directory again when another user has made it after its removal",
  async () => {
    await using temp = await temporary(0o1777);
    const dir = `${temp.dir}/locks`;
    await using locks = new FileLock({ dir });
    await (await locks.acquire("n")).release();
    // The new directory often gets the number of the old one, and here it has the same mode.
    await Deno.remove(dir, { recursive: true });
    await nobody(`mkdir -m 700 ${dir}`);
    await assertRefusedBy(locks, /belongs to another user \(65534\)/);
    assertEquals([...Deno.readDirSync(dir)], []);
  },
);

Deno.test("FileLock accepts directories above that this user, root or the owner of / owns, and no others", async () => {
  await using temp = await temporary();
  const [user, hostRoot, other] = [1_000, 2_000, 3_000];
  const fs = chooseFileSystem();
  const check = (uid: number) => {
    const owned = (path: string): FileInfo => {
      const owner = path === "/" ? hostRoot : path === dirname(temp.dir) ? uid : user;
      return { ...fs.lstat(path), uid: owner };
    };
    const system: FileSystem = Object.assign(Object.create(fs), { lstat: owned, uid: () => user });
    checkTrusted(system, temp.dir);
  };
  for (const uid of [user, 0, hostRoot]) check(uid);
  assertThrows(() => check(other), Error, "belongs to another user (3000)");
});

Deno.test("FileLock refuses any directory when others may write to the root directory", async () => {
  await using temp = await temporary();
  const fs = chooseFileSystem();
  const system: FileSystem = {
    ...fs,
    lstat: (path) => ({ ...fs.lstat(path), ...path === "/" && { mode: 0o777 } }),
  };
  assertThrows(() => checkTrusted(system, temp.dir), Error, 'other users may write to "/"');
});

Deno.test("FileLock checks where a link leads that Deno does not let it read", async () => {
  await using temp = await temporary();
  const [target, dir] = [`${temp.dir}/target`, `${temp.dir}/link/locks`];
  await Deno.mkdir(`${target}/locks`, { recursive: true, mode: 0o700 });
  await Deno.symlink(target, `${temp.dir}/link`);
  const permissions = [`--allow-read=${dir},${target}`, `--allow-write=${dir},${target}`];
  for (const [mode, result] of [[0o777, "LockSetupError"], [0o700, "granted"]] as const) {
    await Deno.chmod(target, mode);
    const outcome = await attempt({ options: { dir } }, { permissions });
    assertEquals(outcome.result, result, outcome.message);
  }
});

Deno.test("FileLock checks the directories above as far as Deno lets it read them", async () => {
  await using temp = await temporary(0o777);
  const dir = `${temp.dir}/locks`;
  await Deno.mkdir(dir, { mode: 0o700 });
  const permissions = [`--allow-write=${dir}`];
  const narrow = [...permissions, `--allow-read=${dir}`];
  assertEquals((await attempt({ options: { dir } }, { permissions: narrow })).result, "granted");
  const wide = [...permissions, `--allow-read=${temp.dir}`];
  const outcome = await attempt({ options: { dir } }, { permissions: wide });
  assertEquals(outcome.result, "LockSetupError", outcome.message);
});

asRoot(
  "FileLock refuses a directory above of an owner that Deno does not let it know",
  async () => {
    await using temp = await temporary(0o1777);
    await nobody(`mkdir -m 755 ${temp.dir}/theirs`);
    const dir = `${temp.dir}/theirs/locks`;
    await Deno.mkdir(dir, { mode: 0o700 });
    const permissions = [`--allow-read=${temp.dir}`, `--allow-write=${dir}`, "--allow-sys=uid"];
    const outcome = await attempt({ options: { dir } }, { permissions });
    assertEquals(outcome.result, "LockSetupError", outcome.message);
    assertMatch(outcome.message!, /Requires read access to "\/"/);
  },
);

asRoot("FileLock needs no permission to know its user", async () => {
  await using temp = await temporary(0o1777);
  await using cache = await temporary(0o777);
  const dir = `${temp.dir}/theirs`;
  await nobody(`mkdir -m 755 ${dir}`);
  const permissions = [`--allow-read=${temp.dir}`, `--allow-write=${dir}`];
  const theirs = { permissions, env: { DENO_DIR: cache.dir }, through: asNobody };
  const granted = await attempt({ options: { dir } }, theirs);
  assertEquals(granted.result, "granted", granted.message);
  assertEquals([...Deno.readDirSync(dir)].map(({ name }) => name), ["holdfast.tokens"]);
  const refused = await attempt({ options: { dir } }, { permissions });
  assertMatch(refused.message!, /belongs to another user/);
});

Deno.test("FileLock refuses a 'dir' that is a file", async () => {
  await using temp = await temporary();
  await Deno.writeTextFile(`${temp.dir}/file`, "");
  const dir = `${temp.dir}/file`;
  const why = /is not a directory: choose another 'dir'$/;
  for (const sharedDir of [false, true]) await assertRefused({ dir, sharedDir }, why);
});

Deno.test("FileLock follows no link at the path of a lock file, and writes to no special file", async () => {
  await using temp = await temporary();
  const dir = `${temp.dir}/locks`;
  const [path, target] = [lockPath(dir, "n"), `${temp.dir}/target`];
  await Deno.mkdir(dir, { mode: 0o777 });
  const directories: Record<string, () => Promise<unknown>> = {
    "a link": () => Deno.symlink(target, path),
    "a directory": () => Deno.mkdir(path),
    "second name": () => Deno.link(target, path),
    "no regular file": () => new Deno.Command("mkfifo", { args: [path] }).output(),
  };
  for (const [why, make] of Object.entries(directories)) {
    await Deno.writeTextFile(target, "text of the target");
    await make();
    for (const options of [{ dir }, { dir, sharedDir: true }]) {
      await assertRefused(options, new RegExp(why));
    }
    assertEquals(await Deno.readTextFile(target), "text of the target");
    await Deno.remove(path);
  }
  await Deno.remove(target);
  await Deno.symlink(target, path);
  await assertRefused({ dir }, /a link/);
  await assertRejects(() => Deno.stat(target), Deno.errors.NotFound, undefined, "made the target");
});

Deno.test("FileLock does not create a directory that is shared", async () => {
  await using temp = await temporary();
  const dir = `${temp.dir}/locks`;
  await using locks = new FileLock({ dir, sharedDir: true });
  await assertRejects(() => locks.acquire("n"), LockSetupError, "does not exist: create it");
  assertEquals((await locks.query("n")).holders, []);
  await Deno.mkdir(dir);
  await (await locks.acquire("n")).release();
  await Deno.remove(dir, { recursive: true });
  await assertRejects(() => locks.tryAcquire("n"), LockSetupError, "does not exist: create it");
});

asRoot("FileLock has a default directory per user, so that no user is locked out", async () => {
  await using temp = await temporary(0o1777);
  await using runtime = await temporary();
  await using cache = await temporary(0o777);
  const env = { TMPDIR: temp.dir, DENO_DIR: cache.dir, XDG_RUNTIME_DIR: "" };
  // As after `su`: the variable still names the directory of the first user.
  const left = { ...env, XDG_RUNTIME_DIR: runtime.dir };
  for (const environment of [env, left]) {
    assertEquals((await attempt({ options: {} }, { env: environment })).result, "granted");
    const second = await attempt({ options: {} }, { env: environment, through: asNobody });
    assertEquals(second.result, "granted", second.message);
  }
});

asRoot("FileLock excludes other users in a directory that they share", async () => {
  await using temp = await temporary(0o755);
  await using cache = await temporary(0o777);
  const dir = `${temp.dir}/locks`;
  await Deno.mkdir(dir);
  const theirs = { env: { DENO_DIR: cache.dir }, through: asNobody };
  for (const mode of [0o1777, 0o777]) {
    await Deno.chmod(dir, mode);
    const options = { dir, sharedDir: true };
    await using locks = new FileLock(options);
    const lease = await locks.acquire("n");
    assertEquals((await attempt({ options }, theirs)).result, "null");
    await lease.release();
    const outcome = await attempt({ options }, theirs);
    assertEquals(outcome.result, "granted", outcome.message);
    const again = await locks.acquire("n");
    assert(again.fencingToken > lease.fencingToken);
    assertEquals((await Deno.stat(lockPath(dir, "n"))).mode! & 0o777, 0o666);
  }
});

asRoot("FileLock waits for the mode of a file that another user is just creating", async () => {
  await using temp = await temporary(0o755);
  await using cache = await temporary(0o777);
  const dir = `${temp.dir}/locks`;
  await Deno.mkdir(dir);
  await Deno.chmod(dir, 0o777);
  const path = lockPath(dir, "n");
  const options = { dir, sharedDir: true };
  const theirs = { env: { DENO_DIR: cache.dir }, through: asNobody };
  await Deno.writeTextFile(path, "", { mode: 0o600 });
  let isOver = false;
  const freshening = (async () => {
    for (; !isOver; await pause(100)) {
      const later = new Date(Date.now() + 1_000);
      await Deno.utime(path, later, later);
    }
  })();
  try {
    const queried = await attempt({ options, call: "query" }, theirs);
    assertEquals(queried.result, "[]", queried.message);
    const tried = await attempt({ options }, theirs);
    assertEquals(tried.result, "null", tried.message);
  } finally {
    isOver = true;
    await freshening;
  }
});
