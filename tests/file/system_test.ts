/**
 * The file system of each runtime: the choice, the errors of `flock`, the clock and the bundles.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { fileURLToPath } from "node:url";
import { constants } from "node:os";
import { DirectoryChanges } from "../../file/directory_changes.ts";
import { chooseFileSystem } from "../../file/system/choose.ts";
import { tryLockBy, unlockBy } from "../../file/system/flock.ts";
import { WallClock } from "../../file/system/wall_clock.ts";
import { LockSetupError } from "../../mod.ts";
import { within } from "../../testing/conformance/wait.ts";
import { temporary } from "../../testing/file/places.ts";
import { bundle, installRuntimes } from "../../testing/file/runtimes.ts";
import { withoutSlowLooks } from "../../testing/file/watching.ts";
import { runCommand } from "../../testing/servers/command.ts";

const ENTRY = fileURLToPath(new URL("../../file/mod.ts", import.meta.url));
const COMMAND_BOUND_MS = 60_000;

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

Deno.test("WallClock.nowUs() follows the wall clock when it is set, and grows in between", () => {
  const clock = new WallClock();
  const now = Date.now;
  try {
    for (const byMs of [0, -3_600_000, 7_200_000, 0.5, 0]) {
      Date.now = () => Math.floor(now() + byMs);
      let last = clock.nowUs();
      for (let i = 0; i < 5_000; i++) {
        const earliest = BigInt(Date.now()) * 1_000n;
        const us = clock.nowUs();
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

Deno.test("WallClock.nowUs() has fractions of a millisecond", () => {
  const clock = new WallClock();
  const seen = new Set<bigint>();
  while (seen.size < 10) seen.add(clock.nowUs() % 1_000n);
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

for (const runtime of ["node", "bun"]) {
  Deno.test(`FileLock works in ${runtime} in a CommonJS bundle beside its node_modules`, async () => {
    await using temp = await temporary();
    const modules = await installRuntimes();
    const file = `${temp.dir}/app/locks.cjs`;
    await Deno.mkdir(`${temp.dir}/app`);
    await Deno.symlink(modules, `${temp.dir}/app/node_modules`);
    await bundle(["--format", "cjs", "-o", file, ENTRY]);
    await Deno.writeTextFile(`${temp.dir}/main.cjs`, main(file, `${temp.dir}/locks`));
    assertEquals(await run([`${modules}/.bin/${runtime}`, `${temp.dir}/main.cjs`]), "locked\n");
  });
}

Deno.test("FileLock throws a LockSetupError in Node when koffi does not work", async () => {
  await using temp = await temporary();
  const modules = await installRuntimes();
  const koffi = `${temp.dir}/node_modules/koffi`;
  await Deno.mkdir(koffi, { recursive: true });
  await Deno.writeTextFile(`${koffi}/index.js`, `throw new Error("no binary for this system")`);
  const file = `${temp.dir}/locks.cjs`;
  await bundle(["--format", "cjs", "-o", file, ENTRY]);
  await Deno.writeTextFile(`${temp.dir}/main.cjs`, main(file, `${temp.dir}/locks`));
  const output = await run([`${modules}/.bin/node`, `${temp.dir}/main.cjs`]);
  assertEquals(output.split(":")[0], "LockSetupError");
  assert(output.includes("does not work here (no binary for this system)"), output);
});

/** A script that locks once, and prints the error if there is one. */
function main(bundle: string, dir: string): string {
  return `
    const { FileLock } = require(${JSON.stringify(bundle)});
    const run = async () => {
      const locks = new FileLock({ dir: ${JSON.stringify(dir)} });
      console.log(await locks.request("n", () => "locked"));
      await locks[Symbol.asyncDispose]();
    };
    run().catch((error) => console.log(error.name + ": " + error.message));`;
}

/** Runs a command without the variables with which this process finds packages. */
async function run(command: readonly string[]): Promise<string> {
  const { success, output } = await runCommand(command, COMMAND_BOUND_MS, {
    env: { NODE_PATH: "" },
  });
  assert(success, output);
  return output;
}
