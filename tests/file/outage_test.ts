/**
 * Errors of `FileLock` when it cannot work as it is set up, and when the file system is out of
 * resources.
 */
import { constants } from "node:os";
import {
  assert,
  assertEquals,
  assertLess,
  assertMatch,
  assertRejects,
  assertThrows,
} from "@std/assert";
import {
  asNobody,
  asRoot,
  attempt,
  type AttemptProcess,
  type Outcome,
} from "../../testing/file/attempts.ts";
import { temporary } from "../../testing/file/lock_directories.ts";
import { SetupFailure, toLockError } from "../../file/failures.ts";
import { lockPath } from "../../file/lock_directory.ts";
import { FileLock } from "../../file/mod.ts";
import { nodeFileSystem } from "../../file/system/node_fs.ts";
import { LockSetupError, LockUnavailableError } from "../../mod.ts";
import { scaled } from "../../testing/time.ts";

/** A bound for "at once", generous for busy machines; an outage budget would be longer. */
const AT_ONCE_MS = scaled(2_000);

function assertSetupError(outcome: Outcome, why: RegExp): void {
  assertEquals(outcome.result, "LockSetupError", JSON.stringify(outcome));
  assertEquals(outcome.code, "ERR_LOCK_SETUP");
  assertMatch(outcome.message!, why);
  assertMatch(outcome.message!, /lock "n"/);
  assertLess(outcome.afterMs!, AT_ONCE_MS);
}

/** Runs the process where a shell command has changed the mounts. */
function mounted(command: string): AttemptProcess {
  return { through: ["unshare", "--mount", "sh", "-c", `${command} && exec "$@"`, "sh"] };
}

for (const call of ["acquire", "tryAcquire", "query"] as const) {
  asRoot(
    `FileLock.${call}() rejects with a LockSetupError when the directory is not accessible`,
    async () => {
      await using temp = await temporary(0o755);
      await using cache = await temporary(0o777);
      const theirs = { env: { DENO_DIR: cache.dir }, through: asNobody };
      const dir = `${temp.dir}/locks`;
      await Deno.mkdir(dir, { mode: 0o700 });
      const closed = await attempt({ options: { dir }, call }, theirs);
      assertSetupError(closed, /Permission denied/);
      if (call === "query") return;
      await Deno.chmod(dir, 0o755);
      for (const sharedDir of [false, true]) {
        const readable = await attempt({ options: { dir, sharedDir }, call }, theirs);
        assertSetupError(readable, /Permission denied|permission denied/);
      }
      assertSetupError(
        await attempt({ options: { dir: `${temp.dir}/missing` }, call }, theirs),
        /Permission denied/,
      );
    },
  );
}

asRoot("FileLock rejects with a LockSetupError when the file system is read-only", async () => {
  await using temp = await temporary();
  const dir = `${temp.dir}/locks`;
  await Deno.mkdir(dir, { mode: 0o700 });
  const readOnly = mounted(`mount -t tmpfs -o ro,mode=700 none ${dir}`);
  for (const call of ["acquire", "tryAcquire"] as const) {
    assertSetupError(await attempt({ options: { dir }, call }, readOnly), /Read-only file system/);
  }
});

Deno.test("FileLock rejects with a LockSetupError when Deno denies the permission", async () => {
  await using temp = await temporary();
  const dir = `${temp.dir}/locks`;
  await Deno.mkdir(dir, { mode: 0o700 });
  const readable = `--allow-read=${temp.dir}`;
  for (
    const [permissions, why] of [
      [[], /Requires (read|write) access/],
      [[readable], /Requires write access/],
    ] as const
  ) {
    assertSetupError(await attempt({ options: { dir } }, { permissions }), why);
  }
  assertSetupError(
    await attempt({ options: {} }, { permissions: [] }),
    /Requires (env|sys) access/,
  );
});

Deno.test("new FileLock() throws a LockSetupError in a Deno that cannot lock files", async () => {
  await using temp = await temporary();
  for (const options of [{ dir: temp.dir }, {}]) {
    const { result, code, message } = await attempt({ options, without: "Deno" });
    assertEquals([result, code], ["LockSetupError", "ERR_LOCK_SETUP"]);
    assertMatch(message!, /no Deno\.FsFile\.tryLockSync.*use Deno 2\.8 or later/);
  }
});

Deno.test("FileLock rejects with a LockSetupError when the file system has no locks", async () => {
  await using temp = await temporary();
  const { tryLockSync } = Deno.FsFile.prototype;
  for (const code of ["ENOLCK", "ENOSYS"] as const) {
    const errno = constants.errno[code];
    // Deno gives these errors no code.
    Deno.FsFile.prototype.tryLockSync = () => {
      throw new Error(`It is refused (os error ${errno})`);
    };
    try {
      await using locks = new FileLock({ dir: temp.dir });
      for (const call of ["acquire", "tryAcquire", "query"] as const) {
        await assertRejects(() => locks[call]("n"), LockSetupError, "on a local file system");
      }
    } finally {
      Deno.FsFile.prototype.tryLockSync = tryLockSync;
    }
    // Node and Bun.
    const file = nodeFileSystem({ flock: () => errno, inotify: null }).open(temp.dir, "read");
    const refused = assertThrows(() => file.tryLock(true), Error);
    file.close();
    assert(toLockError(refused, "n") instanceof LockSetupError, code);
  }
});

Deno.test("toLockError() tells what the set-up needs from outages, says what helps, and keeps the error of the system", () => {
  const refused = (code: string) => Object.assign(new Error("refused"), { code });
  const cases = [
    [new TypeError("no function"), LockSetupError, "no function"],
    [new ReferenceError("no API"), LockSetupError, "no API"],
    [refused("EROFS"), LockSetupError, "refused: let this user write there"],
    [refused("ENOTSUP"), LockSetupError, "refused: choose a 'dir' on a local file system"],
    [refused("ELOOP"), LockSetupError, "refused"],
    [refused("ENOSPC"), LockUnavailableError, "refused"],
  ] as const;
  for (const [error, type, why] of cases) {
    const reported = toLockError(error, "n", "/locks/file");
    assert(reported instanceof type, why);
    assertEquals(reported.message, `Cannot use the file of lock "n" at "/locks/file": ${why}`);
    assert(reported.cause === error, why);
  }
  const { message, cause } = toLockError(new SetupFailure("a link"), "n");
  assertEquals([message, cause], ['Cannot use the file of lock "n": a link', undefined]);
});

asRoot("FileLock rejects with a LockUnavailableError when the disk is full", async () => {
  await using temp = await temporary();
  const dir = `${temp.dir}/locks`;
  await Deno.mkdir(dir);
  const full = [
    `mount -t tmpfs -o mode=700,nr_inodes=1 none ${dir}`,
    `mount -t tmpfs -o mode=700,size=4k none ${dir} && printf %4096s x >${dir}/x`,
  ];
  for (const command of full) {
    const outcome = await attempt({ options: { dir } }, mounted(command));
    assertEquals(outcome.result, "LockUnavailableError", JSON.stringify(outcome));
    assertMatch(outcome.message!, /lock "n".*No space left/);
    assert(outcome.message!.includes(lockPath(dir, "n")), outcome.message);
    assertEquals(outcome.files!.filter((name) => name !== "x"), [], "it leaves no file");
  }
});

asRoot(
  "FileLock rejects with a LockUnavailableError when the process has too many open files",
  async () => {
    await using temp = await temporary();
    const dir = `${temp.dir}/locks`;
    const attempts = { options: { dir }, openFiles: 64 };
    const outcome = await attempt(attempts, { through: ["prlimit", "--nofile=64:64"] });
    assertEquals(outcome.result, "LockUnavailableError", JSON.stringify(outcome));
    assertMatch(outcome.message!, /lock "n".*Too many open files/);
    assert(outcome.message!.includes(lockPath(dir, "n")), outcome.message);
  },
);
