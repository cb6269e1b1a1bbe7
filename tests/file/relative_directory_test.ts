/**
 * A relative directory of `FileLock`, in processes that change their working directory.
 */
import { assertEquals, assertRejects } from "@std/assert";
import { FileLock } from "../../file/mod.ts";
import { LockSetupError } from "../../mod.ts";
import { temporary } from "../../testing/file/places.ts";

Deno.test("FileLock keeps its relative 'dir' when the process changes its directory", async () => {
  await using temp = await temporary();
  await Deno.mkdir(`${temp.dir}/elsewhere`);
  const before = Deno.cwd();
  Deno.chdir(temp.dir);
  try {
    await using locks = new FileLock({ dir: "locks" });
    await using other = new FileLock({ dir: `${temp.dir}/locks` });
    await using unused = new FileLock({ dir: "locks" });
    await using lease = await locks.acquire("n");
    Deno.chdir("elsewhere");
    await lease.renew();
    assertEquals(await other.tryAcquire("n"), null);
    assertEquals(await unused.tryAcquire("n"), null);
    assertEquals(await locks.tryAcquire("m").then((lease) => lease?.release()), true);
    await assertRejects(() => Deno.stat("locks"), Deno.errors.NotFound);
    assertEquals(await lease.release(), true);
  } finally {
    Deno.chdir(before);
  }
});

Deno.test("FileLock refuses a relative 'dir' when the working directory does not exist", async () => {
  await using temp = await temporary();
  const before = Deno.cwd();
  await Deno.mkdir(`${temp.dir}/gone`);
  Deno.chdir(`${temp.dir}/gone`);
  await Deno.remove(`${temp.dir}/gone`);
  try {
    await using locks = new FileLock({ dir: "locks" });
    const calls = [() => locks.acquire("n"), () => locks.tryAcquire("n"), () => locks.query("n")];
    for (const call of calls) await assertRejects(call, LockSetupError, "No such file");
  } finally {
    Deno.chdir(before);
  }
});
