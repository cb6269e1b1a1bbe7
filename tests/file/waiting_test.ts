/**
 * How `FileLock.acquire()` waits for other processes: by a watch of the directory, and by polling where
 * there is none.
 */
import { assert, assertEquals, assertLess } from "@std/assert";
import type { Clock } from "../../core/time/clock.ts";
import { lockPath } from "../../file/lock_directory.ts";
import { DirectoryChanges } from "../../file/directory_changes.ts";
import { FileLock } from "../../file/mod.ts";
import { chooseFileSystem } from "../../file/system/choose.ts";
import type { FileSystem } from "../../file/system/port.ts";
import type { Lease, WaitInfo } from "../../mod.ts";
import { startContender } from "../../testing/conformance/process.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { countListeners } from "../../testing/core/count_listeners.ts";
import { FakeClock, settle } from "../../testing/core/fake_clock.ts";
import { temporary, type TemporaryDirectory } from "../../testing/file/lock_directories.ts";
import {
  changesReported,
  countOpens,
  watchable,
  watchesOf,
  withClock,
  withoutSlowLooks,
  withoutWatches,
} from "../../testing/file/watching.ts";
import { startChild } from "../../testing/processes/child.ts";
import { say } from "../../testing/processes/figures.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";

/** Longer than any test takes. */
const NEVER_MS = 3_600_000;

/** Registers a test of the watch, which only Linux has. */
function onLinux(name: string, fn: (temp: TemporaryDirectory) => Promise<void>): void {
  const isLinux = Deno.build.os === "linux";
  Deno.test({
    name: isLinux ? name : `${name} (skipped: this needs Linux)`,
    ignore: !isLinux,
    async fn() {
      await using temp = await temporary();
      await watchable(temp.dir);
      await fn(temp);
    },
  });
}

/** Starts a call. Resolves when it waits. */
async function startWait(
  locks: FileLock,
  name: string,
  signal?: AbortSignal,
): Promise<{ lease: Promise<Lease> }> {
  let isWaiting = false;
  const lease = locks.acquire(name, { ...signal && { signal }, onWait: () => isWaiting = true });
  lease.catch(() => {});
  await waitUntil("the caller waits", () => isWaiting);
  return { lease };
}

/** The changes of a directory that a test can replace, and whose first watches may be refused. */
function fakeDirectory({ refused = 0, pollIntervalMs = NEVER_MS } = {}) {
  const directory = { ino: 1, starts: 0, open: 0, checks: 0 };
  const info = chooseFileSystem().stat(".");
  const changes = new DirectoryChanges({
    stat: (path) => {
      if (path === "/locks") directory.checks++;
      return { ...info, ino: directory.ino, mtime: new Date(0) };
    },
    watch: () => {
      if (++directory.starts <= refused) return null;
      directory.open++;
      return () => void directory.open--;
    },
  }, pollIntervalMs);
  return { changes, directory };
}

onLinux("FileLock.acquire() is notified when another process is killed", async ({ dir }) => {
  await using locks = new FileLock({ dir, pollIntervalMs: NEVER_MS });
  using _no = withoutSlowLooks();
  for (let i = 0; i < 3; i++) {
    await using holder = startContender({ strategy: "file", dir }, { do: "hold", name: "n" });
    await within("the other process holds", holder.line());
    const { lease } = await startWait(locks, "n");
    let isGranted = false;
    lease.then(() => isGranted = true, () => {});
    await changesReported(dir);
    assert(!isGranted);
    holder.kill("SIGKILL");
    await (await within("the waiter is granted the lock", lease)).release();
  }
});

onLinux("FileLock.acquire() is notified of each release", async ({ dir }) => {
  await using first = new FileLock({ dir, pollIntervalMs: NEVER_MS });
  await using second = new FileLock({ dir, pollIntervalMs: NEVER_MS });
  using _no = withoutSlowLooks();
  let held = await first.acquire("n");
  for (let i = 0; i < 100; i++) {
    const { lease } = await startWait(i % 2 === 0 ? second : first, "n");
    await held.release();
    held = await within("the waiter is granted the lock", lease);
  }
  await held.release();
});

onLinux(
  "FileLock.acquire() is notified when the file that it waits for is removed",
  async ({ dir }) => {
    await using holder = new FileLock({ dir, disposeTimeoutMs: 0, keepFiles: true });
    await using locks = new FileLock({
      dir,
      pollIntervalMs: NEVER_MS,
      disposeTimeoutMs: 0,
      keepFiles: true,
    });
    using _no = withoutSlowLooks();
    await holder.acquire("n");
    const { lease } = await startWait(locks, "n");
    await Deno.remove(lockPath(dir, "n"));
    await within("the waiter is granted the lock", lease);
  },
);

for (const change of ["removed", "renamed"] as const) {
  onLinux(`FileLock watches the new directory when the old one was ${change}`, async (temp) => {
    const dir = `${temp.dir}/locks`;
    await using holder = new FileLock({ dir, disposeTimeoutMs: 0, keepFiles: true });
    await using locks = new FileLock({
      dir,
      pollIntervalMs: NEVER_MS,
      disposeTimeoutMs: 0,
      keepFiles: true,
    });
    await holder.acquire("n");
    const { lease } = await startWait(locks, "n");
    if (change === "removed") Deno.removeSync(dir, { recursive: true });
    else Deno.renameSync(dir, `${temp.dir}/old`);
    const held = await holder.acquire("m");
    const next = await startWait(locks, "m");
    await within("the waiter is granted the lock", lease);
    await waitUntil("the new directory is watched", () => watchesOf(dir) === 1);
    using _no = withoutSlowLooks();
    await held.release();
    await within("the waiter is notified", next.lease);
  });
}

onLinux("FileLock.acquire() looks once a second while nothing changes", async ({ dir }) => {
  await using holder = new FileLock({ dir, disposeTimeoutMs: 0, keepFiles: true });
  await using locks = new FileLock({
    dir,
    pollIntervalMs: 10,
    disposeTimeoutMs: 0,
    keepFiles: true,
  });
  await holder.acquire("n");
  await startWait(locks, "n");
  await changesReported(dir); // its own mark in the file
  using opens = countOpens(lockPath(dir, "n"));
  const startMs = performance.now();
  await waitUntil("it looks again and again", () => opens.count >= 3);
  // One more at the begin: the notification of the mark may come late.
  assertLess(opens.count, (performance.now() - startMs) / 1_000 + 2);
});

onLinux(
  "FileLock.acquire() looks only a few times per handoff with many waiters",
  async ({ dir }) => {
    const all = Array.from({ length: 10 }, () => new FileLock({ dir, pollIntervalMs: NEVER_MS }));
    const first = await all[0]!.acquire("n");
    const waits = [];
    for (const locks of all.slice(1)) waits.push((await startWait(locks, "n")).lease);
    using opens = countOpens(lockPath(dir, "n"));
    await first.release();
    for (const lease of waits) {
      // By then each waiter was notified of the handoff, and has looked.
      lease.then(async (lease) => (await changesReported(dir), await lease.release()));
    }
    await within("all were granted the lock", Promise.all(waits));
    assertLess(opens.count, 10 * 10 * 4);
    for (const locks of all) await locks[Symbol.asyncDispose]();
  },
);

onLinux(
  "FileLock.acquire() does not look when other locks of the directory change",
  async ({ dir }) => {
    await using holder = new FileLock({ dir, disposeTimeoutMs: 0, keepFiles: true });
    await using locks = new FileLock({ dir, disposeTimeoutMs: 0, keepFiles: true });
    await holder.acquire("n");
    using _no = withoutSlowLooks();
    await startWait(locks, "n");
    await changesReported(dir);
    using opens = countOpens(lockPath(dir, "n"));
    for (let i = 0; i < 100; i++) await (await holder.acquire("m")).release();
    await changesReported(dir);
    assertLess(opens.count, 3);
  },
);

onLinux(
  "FileLock has one watch for a thousand waiting names, and none soon after",
  async ({ dir }) => {
    await using holder = new FileLock({ dir, disposeTimeoutMs: 0, keepFiles: true });
    await using locks = new FileLock({ dir, disposeTimeoutMs: 0, keepFiles: true });
    const names = Array.from({ length: 1_000 }, (_, i) => `orders:${i}`);
    for (const name of names) await holder.acquire(name);
    assertEquals(watchesOf(dir), 0);
    const abort = new AbortController();
    await Promise.all(names.map((name) => startWait(locks, name, abort.signal)));
    assertEquals(watchesOf(dir), 1);
    abort.abort();
    await waitUntil("the watch ends", () => watchesOf(dir) === 0);
  },
);

onLinux("FileLock ends its watch at its disposal", async ({ dir }) => {
  await using holder = new FileLock({ dir, disposeTimeoutMs: 0, keepFiles: true });
  await holder.acquire("n");
  const locks = new FileLock({ dir });
  await startWait(locks, "n");
  await waitUntil("the directory is watched", () => watchesOf(dir) === 1);
  using _clock = withClock(new FakeClock()); // no timer ends it
  await locks[Symbol.asyncDispose]();
  await waitUntil("the watch has ended", () => watchesOf(dir) === 0);
});

Deno.test("FileLock.acquire() polls when the directory cannot be watched", async () => {
  await using temp = await temporary();
  using attempts = withoutWatches();
  await using holder = new FileLock({ dir: temp.dir });
  await using locks = new FileLock({ dir: temp.dir, pollIntervalMs: 1 });
  const held = await holder.acquire("n");
  using opens = countOpens(lockPath(temp.dir, "n"));
  const startMs = performance.now();
  const { lease } = await startWait(locks, "n");
  await waitUntil("the waiter looks again and again", () => opens.count > 10);
  // A watch that was refused is tried again after 10 s.
  assertLess(attempts.count, 2 + Math.floor((performance.now() - startMs) / 10_000));
  await held.release();
  await within("the waiter is granted the lock", lease);
});

Deno.test("FileLock gets a free lock for the ninth time in a row although a call that has gone has marked it, and acquire() lets others go first", async () => {
  for (
    const [marking, call] of [
      ["acquire", "acquire"],
      ["acquire", "tryAcquire"],
      ["tryAcquire", "acquire"],
    ] as const
  ) {
    await using temp = await temporary();
    using _no = withoutWatches();
    await using other = new FileLock({ dir: temp.dir, pollIntervalMs: NEVER_MS });
    await using locks = new FileLock({ dir: temp.dir });
    const held = await locks.acquire("n");
    if (marking === "acquire") {
      const abort = new AbortController();
      const { lease } = await startWait(other, "n", abort.signal);
      abort.abort();
      await lease.catch(() => {});
    } else assertEquals(await other.tryAcquire("n"), null);
    await held.release();
    for (let grants = 2; grants <= 8; grants++) await (await locks.acquire("n")).release();
    let waits = 0;
    const onWait = () => void waits++;
    const ninth: Lease | null = await within("it gets the lock", locks[call]("n", { onWait }));
    assert(ninth !== null, call);
    assertEquals(waits, call === "acquire" ? 1 : 0, `${call}() after ${marking}()`);
    await ninth.release();
  }
});

Deno.test("DirectoryChanges polls when the runtime gives up each watch", async () => {
  let starts = 0;
  const watch: FileSystem["watch"] = (_dir, listener) => {
    starts++;
    queueMicrotask(() => listener.onEnd());
    return () => {};
  };
  const changes = new DirectoryChanges({ ...chooseFileSystem(), watch }, 1);
  const waiter = changes.enter("/locks/n.lock");
  for (let i = 0; i < 20; i++) await changes.next(waiter, "held", new AbortController().signal);
  assertEquals(starts, 1);
  changes.leave(waiter);
});

Deno.test("DirectoryChanges ends a wait when the file or any file has changed, also just before, and when its watch ends or begins", async () => {
  const clock = new FakeClock();
  using _clock = withClock(clock);
  const { changes, directory } = fakeDirectory();
  const { signal } = new AbortController();
  const listeners = countListeners(signal);
  const names = ["a", "b"];
  const waiters = names.map((name) => changes.enter(`/locks/${name}.lock`));
  const next = (i: number) => changes.next(waiters[i]!, "held", signal);
  for (const i of [0, 1]) await within("a new waiter looks at once", next(i));
  const wokenBy = async (event: () => void): Promise<string[]> => {
    const woken: string[] = [];
    const waits = names.map((name, i) => next(i).then(() => woken.push(name)));
    await settle();
    assertEquals(woken, [], "they wait");
    event();
    await settle();
    const seen = [...woken];
    await clock.pass(10_000); // the slow look of the others
    await Promise.all(waits);
    return seen;
  };
  assertEquals(await wokenBy(() => changes.onChange("a.lock")), ["a"]);
  assertEquals(await wokenBy(() => changes.onAnyChange()), ["a", "b"]);
  changes.onChange("b.lock");
  await within("it has changed since the last look", next(1));
  assertEquals(await wokenBy(() => changes.onEnd()), ["a", "b"]);
  assertEquals([changes.isWatched, directory.starts], [false, 1]);
  await within("files may have changed before the new watch", next(0));
  assertEquals([changes.isWatched, directory.starts], [true, 2]);
  for (const waiter of waiters) changes.leave(waiter);
  changes.close();
  assertEquals([clock.timers, listeners()], [0, 0]);
});

Deno.test("DirectoryChanges keeps its watch while the directory is the same, and starts one soon after it was replaced, or 10 s after one was refused", async () => {
  const clock = new FakeClock();
  using _clock = withClock(clock);
  const look = (changes: DirectoryChanges) => {
    const abort = new AbortController();
    const waiter = changes.enter("/locks/n.lock");
    const looking = (async () => {
      while (!abort.signal.aborted) await changes.next(waiter, "held", abort.signal);
    })();
    return async () => {
      abort.abort();
      await looking;
      changes.leave(waiter);
      changes.close();
    };
  };
  const steady = fakeDirectory();
  const endSteady = look(steady.changes);
  await clock.pass(60_000);
  await endSteady();
  assertEquals([steady.directory.starts, steady.directory.open], [1, 0]);

  const refused = fakeDirectory({ refused: 1, pollIntervalMs: 100 });
  refused.changes.leave(refused.changes.enter("/locks/other.lock"));
  assertEquals(clock.timers, 0, "no watch has to end");
  const endRefused = look(refused.changes);
  await clock.pass(9_000);
  assertEquals(refused.directory.starts, 1);
  await clock.pass(3_000);
  assertEquals([refused.directory.starts, refused.directory.open], [2, 1]);
  await endRefused();

  const { changes, directory } = fakeDirectory();
  const { signal } = new AbortController();
  const [first, second, third] = ["a", "b", "c"].map((name) => () =>
    changes.enter(`/locks/${name}.lock`)
  );
  const before = first!();
  await within("a new waiter looks at once", changes.next(before, "held", signal));
  await clock.pass(900);
  changes.leave(before); // the watch would end in a second
  directory.ino = 2;
  await clock.pass(100);
  const waiters = [second!(), third!()];
  const restarting = changes.next(waiters[0]!, "held", signal);
  await within("another one looks at once", changes.next(waiters[1]!, "held", signal));
  assertEquals(directory.open, 0, "not in the same turn");
  await clock.pass(20);
  await within("the new directory is watched", restarting);
  assertEquals([directory.starts, directory.open], [2, 1]);
  changes.leave(waiters[0]!);
  await clock.pass(500);
  changes.leave(waiters[1]!);
  await clock.pass(999);
  assertEquals(directory.open, 1);
  await clock.pass(1);
  assertEquals([directory.open, changes.isWatched, clock.timers], [0, false, 0]);
});

Deno.test("DirectoryChanges looks at its directory once a second however often files change, and starts no watch for a call that has ended", async () => {
  const clock = new FakeClock();
  using _clock = withClock(clock);
  const { changes, directory } = fakeDirectory();
  const waiter = changes.enter("/locks/n.lock");
  await changes.next(waiter, "held", AbortSignal.abort());
  assertEquals(directory.starts, 0);
  const { signal } = new AbortController();
  for (let i = 0; i < 26; i++) {
    changes.onChange("n.lock");
    await within("the file has changed", changes.next(waiter, "held", signal));
    await clock.pass(100);
  }
  assertEquals([directory.starts, directory.checks], [1, 3]);
  changes.leave(waiter);
  changes.close();
});

Deno.test("DirectoryChanges lets others go first whatever changes meanwhile: for 10 ms beside a watch, else for an interval", async () => {
  for (const [refused, pauseMs] of [[0, 10], [Infinity, 400]] as const) {
    const clock = new FakeClock();
    using _clock = withClock(clock);
    const { changes } = fakeDirectory({ refused, pollIntervalMs: 400 });
    const waiter = changes.enter("/locks/n.lock");
    const ended: number[] = [];
    const pausing = changes.next(waiter, "yield", new AbortController().signal)
      .then(() => ended.push(pauseMs));
    changes.onAnyChange();
    await clock.pass(pauseMs - 1);
    assertEquals(ended, []);
    await clock.pass(1);
    assertEquals(ended, [pauseMs]);
    await pausing;
    changes.leave(waiter);
    changes.close();
  }
});

/** How processes wait, on a clock that runs at once. */
interface Wait {
  readonly processes: number;
  readonly isWatched: boolean;
  /** When somebody wrote to the file. */
  readonly changedMs: (clock: Clock) => number;
  readonly seconds: number;
}

/** Counts the looks of all processes in each second. */
async function looksPerSecond(
  { processes, isWatched, changedMs, seconds }: Wait,
): Promise<number[]> {
  const clock = new FakeClock();
  using _clock = withClock(clock);
  const info = chooseFileSystem().stat(".");
  const port = {
    watch: () => isWatched ? () => {} : null,
    stat: () => ({ ...info, mtime: new Date(changedMs(clock)) }),
  };
  const abort = new AbortController();
  const counts = Array.from({ length: seconds }, () => 0);
  const startMs = clock.now();
  const wait = async () => {
    const changes = new DirectoryChanges(port, 10);
    const waiter = changes.enter("/locks/n.lock");
    while (!abort.signal.aborted) {
      await changes.next(waiter, "held", abort.signal);
      counts[Math.floor((clock.now() - startMs) / 1_000)]! += 1;
    }
    changes.close();
  };
  const waits = Array.from({ length: processes }, wait);
  await clock.pass(seconds * 1_000 - 1);
  abort.abort();
  await Promise.all(waits);
  return counts;
}

function sum(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

Deno.test("DirectoryChanges polls rarely for a lock that is held for long, as all processes together", async () => {
  const wait = { processes: 80, isWatched: false, changedMs: () => 0 };
  const counts = await looksPerSecond({ ...wait, seconds: 10 });
  say(`looks of 80 processes in each second: ${counts.join(", ")}`);
  assert(counts[0]! > 80 * 13 && counts[0]! < 80 * 20, String(counts));
  const late = sum(counts.slice(5));
  assert(late > 340 && late < 460, String(counts));
});

Deno.test("DirectoryChanges polls at each interval for a lock that changes hands", async () => {
  const wait = { processes: 1, isWatched: false, changedMs: (clock: Clock) => clock.wall() };
  const counts = await looksPerSecond({ ...wait, seconds: 10 });
  for (const count of counts) assert(count > 60, String(counts));
});

Deno.test("DirectoryChanges looks ever more rarely besides a watch, as each look is an event for others", async () => {
  const wait = { processes: 80, isWatched: true, changedMs: () => 0 };
  const counts = await looksPerSecond({ ...wait, seconds: 100 });
  assert(sum(counts.slice(1, 4)) > 80, String(counts));
  assertLess(sum(counts.slice(50)), 80 * 11);
  assert(sum(counts.slice(50)) > 80 * 6, String(counts));
});

Deno.test("FileLock does not keep a process alive that has waited for a lock", async () => {
  await using temp = await temporary();
  await using locks = new FileLock({ dir: temp.dir });
  const held = await locks.acquire("n");
  const script = new URL("../../testing/file/holder.ts", import.meta.url);
  await using child = startChild(script, { dir: temp.dir, isReleased: true });
  assertEquals(await within("the process waits", child.line()), "waiting");
  await held.release();
  assertEquals(await within("the process acquires", child.line()), "released");
  assertEquals(await within("the process ends", child.ended), 0);
});

Deno.test("FileLock.acquire() keeps a process alive that waits for a lock", async () => {
  await using temp = await temporary();
  await using locks = new FileLock({ dir: temp.dir });
  const held = await locks.acquire("n");
  const script = new URL("../../testing/file/holder.ts", import.meta.url);
  await using child = startChild(script, { dir: temp.dir, isReleased: true });
  assertEquals(await within("the process waits", child.line()), "waiting");
  let hasEnded = false;
  child.ended.then(() => hasEnded = true);
  // No condition: a process that nothing keeps alive ends at once, or after its next look.
  await pause(1_500);
  assert(!hasEnded);
  await held.release();
  assertEquals(await within("the process ends", child.ended), 0);
});

Deno.test("FileLock tells its waiters, and a refused tryAcquire(), when places in this instance change", async () => {
  await using temp = await temporary();
  await using other = new FileLock({ dir: temp.dir });
  await using locks = new FileLock({ dir: temp.dir });
  const elsewhere = await other.acquire("n");
  const first = await startWait(locks, "n"); // it waits for the file, the others behind it
  const places: unknown[][] = [[], []];
  const waits = places.map((seen) => {
    const onWait = ({ position, waiters }: WaitInfo) => void seen.push([position, waiters]);
    return locks.acquire("n", { onWait });
  });
  const last = () => places.map((seen) => JSON.stringify(seen.at(-1))).join(" ");
  await waitUntil("all know the number", () => last() === "[2,3] [3,3]");
  let waiters: number | undefined;
  assertEquals(await locks.tryAcquire("n", { onWait: (info) => waiters = info.waiters }), null);
  assertEquals(waiters, 3);
  await elsewhere.release();
  const lease = await within("the first waiter is granted", first.lease);
  await waitUntil("the others know their places", () => last() === "[1,2] [2,2]");
  await lease.release();
  for (const wait of waits) await (await within("the waiter is granted", wait)).release();
});
