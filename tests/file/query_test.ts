/**
 * `FileLock.query()`, `onWait`, and processes that end while they hold a lock.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { lockPath } from "../../file/lock_directory.ts";
import { FileLock } from "../../file/mod.ts";
import type { WaitInfo } from "../../mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { temporary } from "../../testing/file/lock_directories.ts";
import { countOpens } from "../../testing/file/watching.ts";
import { startChild } from "../../testing/processes/child.ts";
import { linesOf } from "../../testing/runtime/lines.ts";
import { spawnProcess } from "../../testing/runtime/processes.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

/** Holds a file with `flock(1)` until disposal. */
async function foreignHolder(path: string, ...options: string[]): Promise<AsyncDisposable> {
  const command = ["flock", ...options, path, "sh", "-c", "echo held; cat >/dev/null"];
  const child = spawnProcess(command, { hasInput: true, stdout: "pipe" });
  const lines = linesOf(child.stdout!);
  assertEquals(await within("flock(1) holds the file", lines.next()), "held");
  return {
    async [Symbol.asyncDispose]() {
      await child.endInput();
      await child.ended;
      await lines.cancel();
    },
  };
}

/** How many looks a waiter may take, in 1.5 s, at a file that another program holds. */
const MAX_LOOKS = 400;

const hasFlock = await new Deno.Command("flock", { args: ["--version"], stdout: "null" }).output()
  .then(({ success }) => success, () => false);

Deno.test("FileLock.query() and list() create neither a file nor the directory", async () => {
  await using temp = await temporary();
  const dir = `${temp.dir}/locks`;
  await using locks = new FileLock({ dir });
  assertEquals((await locks.query("n")).holders, []);
  assertEquals(await Array.fromAsync(locks.list()), []);
  await assertRejects(() => Deno.stat(dir), Deno.errors.NotFound);
  await Deno.mkdir(dir, { mode: 0o700 });
  assertEquals((await locks.query("n")).holders, []);
  assertEquals([...Deno.readDirSync(dir)], []);
});

Deno.test({
  name: `FileLock.query() reports an unknown holder while another program has locked the file${
    hasFlock ? "" : " (skipped: this needs flock(1))"
  }`,
  ignore: !hasFlock,
  async fn() {
    await using temp = await temporary();
    await using locks = new FileLock({ dir: temp.dir, keepFiles: true });
    for (const wasUsed of [false, true]) {
      {
        await using _holder = await foreignHolder(lockPath(temp.dir, "n"));
        assertEquals((await locks.query("n")).holders, [{ mode: "exclusive" }], String(wasUsed));
        assertEquals(await locks.tryAcquire("n"), null);
      }
      assertEquals((await locks.query("n")).holders, []);
      await (await locks.acquire("n")).release();
    }
  },
});

Deno.test({
  name: `FileLock.acquire() gets the lock when another program that held the file ends${
    hasFlock ? "" : " (skipped: this needs flock(1))"
  }`,
  ignore: !hasFlock,
  async fn() {
    await using temp = await temporary();
    await using locks = new FileLock({ dir: temp.dir, keepFiles: true });
    const holder = await foreignHolder(lockPath(temp.dir, "n"));
    let isWaiting = false;
    const lease = locks.acquire("n", { onWait: () => isWaiting = true });
    await waitUntil("the caller waits", () => isWaiting);
    await holder[Symbol.asyncDispose]();
    await (await within("the waiter is granted the lock", lease)).release();
  },
});

Deno.test({
  name: `FileLock.acquire() does not spin while another program shares the file${
    hasFlock ? "" : " (skipped: this needs flock(1))"
  }`,
  ignore: !hasFlock || Deno.build.os !== "linux",
  async fn() {
    await using temp = await temporary();
    await using locks = new FileLock({ dir: temp.dir, keepFiles: true });
    const path = lockPath(temp.dir, "n");
    const holder = await foreignHolder(path, "--shared");
    let isWaiting = false;
    const lease = locks.acquire("n", { onWait: () => isWaiting = true });
    await waitUntil("the caller waits", () => isWaiting);
    try {
      using opens = countOpens(path);
      const startMs = performance.now();
      await waitUntil("it has waited", () => performance.now() - startMs > 1_500);
      assert(opens.count < MAX_LOOKS, `${opens.count} looks`);
    } finally {
      await holder[Symbol.asyncDispose]();
    }
    await (await within("the waiter is granted the lock", lease)).release();
  },
});

Deno.test("FileLock.query() tells how long a waiter has waited since its call, not since its turn", async () => {
  await using temp = await temporary();
  await using other = new FileLock({ dir: temp.dir });
  await using locks = new FileLock({ dir: temp.dir });
  const held = await other.acquire("n");
  const leaving = new AbortController();
  const first = locks.acquire("n", { signal: leaving.signal, label: "first" });
  const second = locks.acquire("n", { label: "second" });
  const calledMs = performance.now();
  await waitUntil("both have waited", () => performance.now() - calledMs > 100);
  leaving.abort();
  await assertRejects(() => first);
  const leastMs = performance.now() - calledMs;
  const waiters = (await locks.query("n")).waiters!;
  assertEquals(waiters.map(({ label }) => label), ["second"]);
  const { waitedMs = 0 } = waiters[0]!;
  assert(waitedMs >= leastMs, `${waitedMs} of ${leastMs} ms`);
  await held.release();
  await (await within("the waiter is granted", second)).release();
});

Deno.test("FileLock.query() reports no holder when several look at a free lock at once", async () => {
  await using temp = await temporary();
  const instances = Array.from({ length: 8 }, () => new FileLock({ dir: temp.dir }));
  await (await instances[0]!.acquire("n")).release();
  for (let i = 0; i < 50; i++) {
    const seen = await Promise.all(instances.map((locks) => locks.query("n")));
    assertEquals(seen.flatMap(({ holders }) => holders), []);
  }
  for (const locks of instances) await locks[Symbol.asyncDispose]();
});

Deno.test("FileLock.query() reports no holder while another process looks at a free lock", async () => {
  await using temp = await temporary();
  await using locks = new FileLock({ dir: temp.dir });
  await (await locks.acquire("n")).release();
  using other = Deno.openSync(lockPath(temp.dir, "n"));
  other.lockSync(false);
  assertEquals((await locks.query("n")).holders, []);
});

Deno.test("FileLock.acquire() tells onWait its position in this process, and never the same twice", async () => {
  await using temp = await temporary();
  await using other = new FileLock({ dir: temp.dir });
  await using locks = new FileLock({ dir: temp.dir });
  const held = await other.acquire("n");
  const told: WaitInfo[][] = [[], [], []];
  const leases = [];
  for (const list of told) {
    const lease = locks.acquire("n", { onWait: (info) => void list.push(info) });
    lease.catch(() => {});
    leases.push(lease);
    await waitUntil("the caller waits", () => list.length > 0);
  }
  assertEquals(told, [
    [{ position: 1, waiters: 1 }],
    [{ position: 2, waiters: 2 }],
    [{ position: 3, waiters: 3 }],
  ]);
  await held.release();
  const first = await within("the first waiter is granted", leases[0]!);
  const again = other.acquire("n").then((lease) => lease.release());
  again.catch(() => {});
  await first.release();
  for (const lease of leases.slice(1)) await (await within("the next is granted", lease)).release();
  await again;
  assert(
    told.every((list) => new Set(list.map((info) => JSON.stringify(info))).size === list.length),
  );
});

Deno.test("FileLock.acquire() tells onWait nothing twice when its turn comes but another process has the lock", async () => {
  await using temp = await temporary();
  await using other = new FileLock({ dir: temp.dir, keepFiles: true });
  await using locks = new FileLock({ dir: temp.dir, keepFiles: true });
  const path = lockPath(temp.dir, "n");
  const held = await locks.acquire("n");
  const told: WaitInfo[] = [];
  const waiting = locks.acquire("n", { onWait: (info) => void told.push(info) });
  await waitUntil("it waits for its turn", () => told.length > 0);
  Deno.removeSync(path); // Nothing happens until the next grant.
  const theirs = await other.acquire("n");
  using opens = countOpens(path);
  assertEquals(await held.release(), false);
  await waitUntil("it waits for the file", () => opens.count > 0);
  await theirs.release();
  await (await within("the waiter is granted", waiting)).release();
  assertEquals(told, [{ position: 1, waiters: 1 }]);
});

for (const [state, what] of [["held", "lock"], ["released", "lock"], ["held", "set"]] as const) {
  Deno.test(`FileLock does not keep a process alive that has ${state} a ${what}`, async () => {
    await using temp = await temporary();
    const script = new URL("../../testing/file/holder.ts", import.meta.url);
    const task = { dir: temp.dir, isReleased: state === "released", isSet: what === "set" };
    await using child = startChild(script, task);
    assertEquals(await within("the process acquires", child.line()), state);
    assertEquals(await within("the process ends", child.ended), 0);
  });
}

// The first try of each call is made at once, so that the file is locked then.
Deno.test("FileLock.query() and tryAcquire() look again when the file was locked for a moment, but not after disposal", async () => {
  await using temp = await temporary();
  await using locks = new FileLock({ dir: temp.dir, keepFiles: true });
  await (await locks.acquire("n")).release();
  using other = await Deno.open(lockPath(temp.dir, "n"), { read: true, write: true });
  other.lockSync(true);
  const seen = locks.query("n");
  other.unlockSync();
  assertEquals((await seen).holders, []);
  other.lockSync(true);
  const tried = locks.tryAcquire("n");
  other.unlockSync();
  const lease = await tried;
  assert(lease !== null);
  await lease.release();
  other.lockSync(true);
  const calls = Promise.allSettled([locks.query("n"), locks.tryAcquire("n")]);
  const disposed = locks[Symbol.asyncDispose]();
  other.unlockSync();
  const ends = (await calls).map((call) =>
    call.status === "rejected" ? call.reason.name : "answered"
  );
  assertEquals(ends, ["AbortError", "AbortError"]);
  await disposed;
});

Deno.test("FileLock.query() and tryAcquire() look 21 times at a file that another program has locked, and no more when the signal aborts", async () => {
  await using temp = await temporary();
  await using locks = new FileLock({ dir: temp.dir, keepFiles: true });
  const path = lockPath(temp.dir, "n");
  await (await locks.acquire("n")).release();
  using other = await Deno.open(path, { read: true, write: true });
  other.lockSync(true);
  for (const call of ["query", "tryAcquire", "aborted"] as const) {
    using opens = countOpens(path);
    if (call === "query") assertEquals((await locks.query("n")).holders, [{ mode: "exclusive" }]);
    else if (call === "tryAcquire") assertEquals(await locks.tryAcquire("n"), null);
    else {
      const abort = new AbortController();
      const trying = locks.tryAcquire("n", { signal: abort.signal });
      abort.abort();
      await assertRejects(() => trying, DOMException);
    }
    assertEquals(opens.count, call === "aborted" ? 1 : 21, call);
  }
});
