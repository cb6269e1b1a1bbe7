/**
 * A process that changes its working directory while it uses a `FileLock` with a relative directory. All
 * tests of a run share one working directory, so none of them may change it.
 *
 * @module
 */
import assert from "node:assert/strict";
import { mkdir, rm } from "node:fs/promises";
import process from "node:process";
import { FileLock } from "../../file/mod.ts";
import { LockSetupError } from "../../mod.ts";

const [scene] = process.argv.slice(2);
const top = process.cwd();

/** Changes the directory while locks are held. */
async function moves(): Promise<void> {
  await mkdir("elsewhere");
  await using locks = new FileLock({ dir: "locks" });
  await using other = new FileLock({ dir: `${top}/locks` });
  await using unused = new FileLock({ dir: "locks" });
  await using lease = await locks.acquire("n");
  process.chdir("elsewhere");
  await lease.renew();
  assert.equal(await other.tryAcquire("n"), null);
  assert.equal(await unused.tryAcquire("n"), null);
  assert.equal(await locks.tryAcquire("m").then((lease) => lease?.release()), true);
  await assert.rejects(() => Deno.stat("locks"), Deno.errors.NotFound);
  assert.equal(await lease.release(), true);
}

/** Works in a directory that was removed. */
async function isNowhere(): Promise<void> {
  await mkdir("gone");
  process.chdir("gone");
  await rm(`${top}/gone`, { recursive: true });
  await using locks = new FileLock({ dir: "locks" });
  const calls = [() => locks.acquire("n"), () => locks.tryAcquire("n"), () => locks.query("n")];
  for (const call of calls) {
    await assert.rejects(call, (error: Error) => {
      return error instanceof LockSetupError && error.message.includes("No such file");
    });
  }
}

await (scene === "moves" ? moves() : isNowhere());
process.stdout.write("done\n");
