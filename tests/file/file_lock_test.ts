import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { LockUnavailableError } from "../../mod.ts";
import { FileLock, type FileLockOptions } from "../../file/mod.ts";
import { lockPath } from "../../file/directory.ts";
import { aborted, within } from "../../testing/conformance/wait.ts";
import { startContender } from "../../testing/conformance/process.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

async function temporary() {
  const dir = await Deno.makeTempDir({ prefix: "holdfast-test-" });
  return { dir, [Symbol.asyncDispose]: () => Deno.remove(dir, { recursive: true }) };
}

Deno.test("FileLock touches nothing before the first lock, then makes a private directory", async () => {
  await using temp = await temporary();
  const dir = `${temp.dir}/a/b`;
  await using locks = new FileLock({ dir });
  await assertRejects(() => Deno.stat(dir), Deno.errors.NotFound);
  await using _lease = await locks.acquire("n");
  assertEquals((await Deno.stat(dir)).mode! & 0o777, 0o700);
  assertEquals((await Deno.stat(lockPath(dir, "n"))).mode! & 0o777, 0o600);
});

Deno.test("FileLock keeps the file and the name in it after release", async () => {
  await using temp = await temporary();
  await using locks = new FileLock({ dir: temp.dir });
  await (await locks.acquire("orders:42")).release();
  await (await locks.acquire("orders:42")).release();
  const text = await Deno.readTextFile(lockPath(temp.dir, "orders:42"));
  assert(text.endsWith('"orders:42"\n'));
  assertEquals(text.split("\n").length, 3);
});

Deno.test("FileLock lets a replaced file end the lease as stolen", async () => {
  await using temp = await temporary();
  await using locks = new FileLock({ dir: temp.dir });
  const lease = await locks.acquire("n");
  await Deno.writeTextFile(`${temp.dir}/other`, "");
  await Deno.rename(`${temp.dir}/other`, lockPath(temp.dir, "n"));
  await within("the signal aborts", aborted(lease.signal));
  assertEquals(lease.signal.reason.reason, "stolen");
});

Deno.test("FileLock.renew() and release() look at the file at once", async () => {
  await using temp = await temporary();
  await using locks = new FileLock({ dir: temp.dir });
  const lease = await locks.acquire("n");
  await Deno.remove(lockPath(temp.dir, "n"));
  assertEquals(await lease.release(), false);
  const next = await locks.acquire("n");
  await Deno.remove(lockPath(temp.dir, "n"));
  const error = await next.renew().then(() => null, (error) => error);
  assertEquals(error?.reason, "stolen");
});

Deno.test("FileLock.query() sees through a mark that a dead holder left", async () => {
  await using temp = await temporary();
  await using locks = new FileLock({ dir: temp.dir });
  const spec = { strategy: "file", dir: temp.dir, label: "victim" } as const;
  await using holder = startContender(spec, { do: "hold", name: "n" });
  await within("the other process holds", holder.line());
  assertEquals((await locks.query("n")).holders[0]?.label, "victim");
  holder.kill("SIGKILL");
  await waitUntil("the lock is free", async () => (await locks.query("n")).holders.length === 0);
  assert((await Deno.readTextFile(lockPath(temp.dir, "n"))).slice(21, 22) === "-");
});

Deno.test("FileLock lets another process in between a greedy one's grants", async () => {
  await using temp = await temporary();
  await using greedy = new FileLock({ dir: temp.dir });
  await using other = new FileLock({ dir: temp.dir });
  let grants = 0;
  let stop = false;
  const loop = (async () => {
    while (!stop) {
      await using _lease = await greedy.acquire("n");
      grants++;
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  })();
  await waitUntil("the greedy one is at it", () => grants > 20);
  for (let i = 0; i < 5; i++) {
    await using _lease = await within("the other one is let in", other.acquire("n"));
  }
  stop = true;
  await loop;
});

Deno.test("FileLock reports what the file system refuses", async () => {
  await using temp = await temporary();
  await Deno.writeTextFile(`${temp.dir}/file`, "");
  await using locks = new FileLock({ dir: `${temp.dir}/file` });
  for (const call of [() => locks.acquire("n"), () => locks.tryAcquire("n")]) {
    const error = await assertRejects(call, LockUnavailableError);
    assert(error.cause instanceof Error);
  }
});

Deno.test("FileLock makes its directory again when that was removed", async () => {
  await using temp = await temporary();
  const dir = `${temp.dir}/locks`;
  await using locks = new FileLock({ dir });
  await (await locks.acquire("n")).release();
  await Deno.remove(dir, { recursive: true });
  await using lease = await locks.acquire("n");
  lease.throwIfLost();
});

Deno.test("FileLock refuses a default directory that others may write to", async () => {
  await using temp = await temporary();
  await Deno.mkdir(`${temp.dir}/holdfast`);
  await Deno.chmod(`${temp.dir}/holdfast`, 0o777);
  const code = `
    import { FileLock } from ${JSON.stringify(new URL("../../file/mod.ts", import.meta.url).href)};
    await using locks = new FileLock();
    await locks.acquire("n").then(() => console.log("taken"), (error) => console.log(error.message));`;
  const run = (env: Record<string, string>) =>
    new Deno.Command(Deno.execPath(), { args: ["eval", code], env }).output();
  const refused = new TextDecoder().decode((await run({ XDG_RUNTIME_DIR: temp.dir })).stdout);
  assert(refused.includes("written to by other users"), refused);
  await Deno.chmod(`${temp.dir}/holdfast`, 0o700);
  const taken = new TextDecoder().decode((await run({ XDG_RUNTIME_DIR: temp.dir })).stdout);
  assertEquals(taken.trim(), "taken");
});

Deno.test("FileLock needs read and write permission for its directory, and no other", async () => {
  await using temp = await temporary();
  const code = `
    import { FileLock } from ${JSON.stringify(new URL("../../file/mod.ts", import.meta.url).href)};
    await using locks = new FileLock({ dir: ${JSON.stringify(temp.dir)} });
    console.log(await locks.request("n", () => "done"));`;
  const script = `${temp.dir}/script.ts`;
  await Deno.writeTextFile(script, code);
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", `--allow-read=${temp.dir}`, `--allow-write=${temp.dir}`, script],
  }).output();
  assertEquals(new TextDecoder().decode(stdout).trim(), "done", new TextDecoder().decode(stderr));
});

Deno.test("FileLock refuses bad options at once", () => {
  const bad: [unknown, typeof TypeError | typeof RangeError][] = [
    [{ dir: 7 }, TypeError],
    [{ dir: "\ud800" }, TypeError],
    [{ pollIntervalMs: 0 }, RangeError],
    [{ pollIntervalMs: "1" }, TypeError],
  ];
  for (const [options, type] of bad) {
    assertThrows(() => new FileLock(options as FileLockOptions), type);
  }
});
