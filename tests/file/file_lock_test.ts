import { setImmediate } from "node:timers";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { SYSTEM_CLOCK } from "../../core/time/clock.ts";
import { FileLock, type FileLockOptions } from "../../file/mod.ts";
import { lockPath } from "../../file/lock_directory.ts";
import { aborted, within } from "../../testing/conformance/bounds.ts";
import { startContender } from "../../testing/conformance/process.ts";
import { countListeners } from "../../testing/core/count_listeners.ts";
import { FakeClock } from "../../testing/core/fake_clock.ts";
import { withClock } from "../../testing/file/watching.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

async function temporary() {
  const dir = await Deno.makeTempDir({ prefix: "holdfast-test-" });
  return { dir, [Symbol.asyncDispose]: () => Deno.remove(dir, { recursive: true }) };
}

Deno.test("FileLock creates a private directory, and only when the first lock is acquired", async () => {
  await using temp = await temporary();
  const dir = `${temp.dir}/a/b`;
  await using locks = new FileLock({ dir });
  await assertRejects(() => Deno.stat(dir), Deno.errors.NotFound);
  await using _lease = await locks.acquire("n");
  assertEquals((await Deno.stat(dir)).mode! & 0o777, 0o700);
  assertEquals((await Deno.stat(lockPath(dir, "n"))).mode! & 0o777, 0o600);
});

Deno.test("FileLock loses the lease as stolen when the lock file is replaced", async () => {
  await using temp = await temporary();
  await using locks = new FileLock({ dir: temp.dir });
  const lease = await locks.acquire("n");
  await Deno.writeTextFile(`${temp.dir}/other`, "");
  await Deno.rename(`${temp.dir}/other`, lockPath(temp.dir, "n"));
  await within("the signal aborts", aborted(lease.signal));
  assertEquals(lease.signal.reason.reason, "stolen");
});

Deno.test("FileLock looks once a second whether the path of a lease still leads to its file", async () => {
  await using temp = await temporary();
  await using locks = new FileLock({ dir: temp.dir, keepFiles: true });
  const clock = new FakeClock();
  using _clock = withClock(clock);
  const { signal } = await locks.acquire("n");
  await Deno.remove(lockPath(temp.dir, "n"));
  await clock.pass(999);
  assert(!signal.aborted);
  await clock.pass(1);
  await within("the signal aborts", aborted(signal));
});

Deno.test("FileLock leases notice in renew() and release() that the lock file was removed", async () => {
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

Deno.test("Lease.release() unlocks the file, and returns false, when the path cannot be read any more", async () => {
  await using temp = await temporary();
  const [dir, moved] = [`${temp.dir}/locks`, `${temp.dir}/moved`];
  await using locks = new FileLock({ dir });
  const lease = await locks.acquire("n");
  await Deno.rename(dir, moved);
  await Deno.writeTextFile(dir, "a file where the directory was");
  assertEquals(await lease.release(), false);
  using file = await Deno.open(lockPath(moved, "n"), { read: true, write: true });
  assert(file.tryLockSync(true));
});

Deno.test("FileLock.query() reports the lock as free when its holder was killed", async () => {
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

Deno.test("FileLock.acquire() succeeds while another instance acquires the lock again and again", async () => {
  await using temp = await temporary();
  await using greedy = new FileLock({ dir: temp.dir });
  await using other = new FileLock({ dir: temp.dir });
  let grants = 0;
  let stop = false;
  const loop = (async () => {
    while (!stop) {
      await using _lease = await greedy.acquire("n");
      grants++;
      await new Promise((resolve) => setImmediate(resolve));
    }
  })();
  await waitUntil("the first instance acquires again and again", () => grants > 20);
  for (let i = 0; i < 5; i++) {
    await using _lease = await within("the other instance acquires the lock", other.acquire("n"));
  }
  stop = true;
  await loop;
});

Deno.test("FileLock creates its directory again when it was removed", async () => {
  await using temp = await temporary();
  const dir = `${temp.dir}/locks`;
  await using locks = new FileLock({ dir });
  await (await locks.acquire("n")).release();
  await Deno.remove(dir, { recursive: true });
  await using lease = await locks.acquire("n");
  lease.throwIfLost();
});

Deno.test("FileLock rejects a default directory when other users may write to it", async () => {
  await using temp = await temporary();
  await Deno.mkdir(`${temp.dir}/holdfast`);
  await Deno.chmod(`${temp.dir}/holdfast`, 0o777);
  const code = `
    import { FileLock } from ${JSON.stringify(new URL("../../file/mod.ts", import.meta.url).href)};
    await using locks = new FileLock();
    await locks.acquire("n").then(() => console.log("taken"), (error) => console.log(error.message));`;
  const run = (env: Record<string, string>) =>
    new Deno.Command(Deno.execPath(), { args: ["eval", code], env }).output();
  const rejected = new TextDecoder().decode((await run({ XDG_RUNTIME_DIR: temp.dir })).stdout);
  assert(rejected.includes("written to by other users"), rejected);
  await Deno.chmod(`${temp.dir}/holdfast`, 0o700);
  const taken = new TextDecoder().decode((await run({ XDG_RUNTIME_DIR: temp.dir })).stdout);
  assertEquals(taken.trim(), "taken");
});

Deno.test("FileLock needs no permission except read and write for its directory", async () => {
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

Deno.test("new FileLock() throws when an option is bad", () => {
  const bad: [unknown, typeof TypeError | typeof RangeError][] = [
    [{ dir: 7 }, TypeError],
    [{ dir: "" }, RangeError], // an empty variable of the environment would be the working directory
    [{ dir: "\ud800" }, TypeError],
    [{ sharedDir: 1, dir: "/tmp" }, TypeError],
    [{ sharedDir: true }, TypeError],
    [{ keepFiles: "yes" }, TypeError],
    [{ pollIntervalMs: 0 }, RangeError],
    [{ pollIntervalMs: "1" }, TypeError],
  ];
  for (const [options, type] of bad) {
    assertThrows(() => new FileLock(options as FileLockOptions), type);
  }
  new FileLock({ dir: "/" }); // the shortest
});

Deno.test("FileLock says what it offers", () => {
  assertEquals(new FileLock({ dir: "/" }).capabilities, {
    fifo: "process",
    endsBy: "process-death",
    steal: false,
    attach: false,
    shared: false,
    limit: false,
    list: true,
  });
});

Deno.test("FileLock.acquire() leaves no listener on its signal, and tryAcquire() rejects when it has aborted, also while this instance holds the lock", async () => {
  await using temp = await temporary();
  await using locks = new FileLock({ dir: temp.dir });
  const abort = new AbortController();
  const { signal } = abort;
  const listeners = countListeners(signal);
  await (await locks.acquire("n", { signal })).release();
  assertEquals(listeners(), 0);
  await using _held = await locks.acquire("n");
  abort.abort(new Error("too late"));
  await assertRejects(() => locks.tryAcquire("n", { signal }), Error, "too late");
});

/** How many files of a directory this process has open. */
function openFilesIn(dir: string): number {
  return [...Deno.readDirSync("/proc/self/fd")].filter(({ name }) => {
    try {
      return Deno.readLinkSync(`/proc/self/fd/${name}`).startsWith(`${dir}/`);
    } catch {
      return false; // that of the list itself
    }
  }).length;
}

const isLinux = Deno.build.os === "linux";

Deno.test({
  name: `FileLock has a file open only while it holds its lock${
    isLinux ? "" : " (skipped: this needs /proc)"
  }`,
  ignore: !isLinux,
  async fn() {
    for (const sharedDir of [false, true]) {
      await using temp = await temporary();
      await Deno.chmod(temp.dir, sharedDir ? 0o770 : 0o700);
      const options = { dir: temp.dir, sharedDir };
      // The second round finds the tokens of the first one.
      for (let round = 0; round < 2; round++) {
        await using locks = new FileLock(options);
        await using other = new FileLock(options);
        const lease = await locks.acquire("n");
        assertEquals(await other.tryAcquire("n"), null);
        assertEquals((await other.query("n")).holderCount, 1);
        assertEquals(await Array.fromAsync(other.list()), ["n"]);
        assertEquals(openFilesIn(temp.dir), 1);
        await lease.release();
        await (await other.acquire("n")).release(); // clears the mark, so that disposal deletes it
        assertEquals(openFilesIn(temp.dir), 0);
      }
      assertEquals(openFilesIn(temp.dir), 0);
    }
  },
});

Deno.test("FileLock.list() names locks with the longest names, skips other entries, gives others their turns, and ends at disposal", async () => {
  await using temp = await temporary();
  await using locks = new FileLock({ dir: temp.dir, keepFiles: true });
  const names = ["\uffff".repeat(1_000), ...Array.from({ length: 63 }, (_, i) => `n${i}`)];
  for (const name of names) await (await locks.acquire(name)).release();
  await Deno.mkdir(`${temp.dir}/folder`);
  await Deno.writeTextFile(lockPath(temp.dir, "damaged"), "no record");
  await Deno.writeTextFile(lockPath(temp.dir, "empty"), "");
  const [seen, turns]: [string[], string[]] = [[], []];
  const { schedule } = SYSTEM_CLOCK;
  let pauses = 0;
  using _clock = withClock({
    ...SYSTEM_CLOCK,
    schedule: (callback, delayMs) => (pauses++, schedule(callback, delayMs)),
  });
  for await (const name of locks.list()) {
    if (seen.length === 0) setTimeout(() => turns.push("of another"));
    seen.push(name);
  }
  assertEquals(seen.toSorted(), names.toSorted());
  assertEquals(turns, ["of another"]);
  assertEquals(pauses, 2, "66 files: a pause after each 32");
  const listing = locks.list()[Symbol.asyncIterator]();
  assertEquals((await listing.next()).done, false);
  await locks[Symbol.asyncDispose]();
  assertEquals((await assertRejects(() => listing.next(), DOMException)).name, "AbortError");
});
