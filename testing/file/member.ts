/**
 * The process behind {@linkcode startMember}, which also runs on Node 22 and Bun: so it uses neither
 * `Deno` nor `using`.
 *
 * @module
 */
// Paces a workload: each round holds for another time.
import { spawn } from "node:child_process";
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import process from "node:process";
import { deleteUnused } from "../../file/deletion.ts";
import { lockPath } from "../../file/lock_directory.ts";
import { FileLock } from "../../file/mod.ts";
import { chooseFileSystem } from "../../file/system/choose.ts";
import type { DirectoryListener } from "../../file/system/port.ts";
import { TokenFile } from "../../file/tokens.ts";
import { linesOf } from "../runtime/lines.ts";
import { inputEnd, print, scriptArgument, scriptInput } from "../runtime/processes.ts";
import { waitUntil } from "../servers/wait.ts";
import type { MemberTask } from "./members.ts";
import { withoutSlowLooks } from "./watching.ts";

const NAME = "n";

function say(value: unknown): void {
  print(`${JSON.stringify(value)}\n`);
}

/** Adds to a number in a file, in two steps, and deletes the lock file as soon as nobody holds it. */
async function count({ dir, counter, rounds }: MemberTask & { do: "count" }): Promise<void> {
  const fs = chooseFileSystem();
  const tokens = new TokenFile(fs, `${dir}/holdfast.tokens`, 0o600);
  const locks = new FileLock({ dir });
  for (let round = 0; round < rounds; round++) {
    await locks.request(NAME, async () => {
      const value = Number(readFileSync(counter, "utf8"));
      await new Promise((resolve) => setTimeout(resolve, round % 3));
      writeFileSync(counter, String(value + 1));
    });
    deleteUnused(fs, [lockPath(dir, NAME)], tokens, () => false);
  }
  await locks[Symbol.asyncDispose]();
  say({ done: rounds });
}

/** Holds the lock, with a process that it has started meanwhile. */
async function hold({ dir }: MemberTask & { do: "hold" }): Promise<void> {
  await new FileLock({ dir }).acquire(NAME);
  const { pid } = spawn("sleep", ["600"], { stdio: "ignore" });
  say({ pid });
  await inputEnd();
}

/** A lock whose waiters only an event wakes, where there are events. */
function openWithoutLooks(dir: string): FileLock {
  if (process.platform !== "linux") return new FileLock({ dir });
  withoutSlowLooks();
  return new FileLock({ dir, pollIntervalMs: 3_600_000 });
}

/** Waits for the lock and releases it, again and again, a line for each step. */
async function takeTurns({ dir }: MemberTask & { do: "take turns" }): Promise<void> {
  const locks = openWithoutLooks(dir);
  const lines = linesOf(scriptInput());
  while (await lines.next() !== null) {
    const lease = await locks.acquire(NAME, { onWait: () => say("waits") });
    say("holds");
    await lines.next();
    await lease.release();
  }
  await locks[Symbol.asyncDispose]();
}

/** Waits for the lock once. The process must end without a disposal. */
async function acquire({ dir }: MemberTask & { do: "acquire" }): Promise<void> {
  const lease = await openWithoutLooks(dir).acquire(NAME, { onWait: () => say("waits") });
  say(await lease.release());
}

/** Waits for the lock as programs do, and keeps it. */
async function keep({ dir }: MemberTask & { do: "keep" }): Promise<void> {
  await new FileLock({ dir }).acquire(NAME, { onWait: () => say("waits") });
  say({ grantedMs: performance.timeOrigin + performance.now() });
  await inputEnd();
}

/** Changes a directory and reports what is seen of it, also when there is too much to report. */
async function watch({ dir }: MemberTask & { do: "watch" }): Promise<void> {
  const fs = chooseFileSystem();
  const before = pipes();
  const notes = { list: [] as string[] };
  const running = fs.watch(dir, listenerOf(notes))!;
  const [a, b] = [`${dir}/a`, `${dir}/b`];
  let marks = 0;
  /** The system reports in order: what it has not reported before a mark, it does not report. */
  const after = async (change: () => void) => {
    notes.list = [];
    change();
    const mark = `mark-${marks++}`;
    closeSync(openSync(`${dir}/${mark}`, "w"));
    await waitUntil("the mark is reported", () => notes.list.includes(mark));
    return [...new Set(notes.list)].filter((name) => name !== mark).sort();
  };
  const fd = openSync(a, "w");
  const changes = {
    written: await after(() => writeFileSync(fd, "text")),
    closed: await after(() => closeSync(fd)),
    read: await after(() => readFileSync(a)),
    renamed: await after(() => renameSync(a, b)),
    removed: await after(() => unlinkSync(b)),
  };
  const renamed = { list: [] as string[] };
  mkdirSync(a);
  fs.watch(a, listenerOf(renamed));
  renameSync(a, b);
  await waitUntil("it reports that the directory was renamed", () => renamed.list.includes("any"));
  rmdirSync(b);
  for (let i = 0; i < 20_000; i++) closeSync(openSync(`${dir}/${i % 64}`, "w"));
  await waitUntil("it reports that there was too much", () => notes.list.includes("any"));
  const others = { list: [] as string[] };
  fs.watch(dir, listenerOf(others));
  running();
  running();
  notes.list = [];
  closeSync(openSync(a, "w"));
  await waitUntil("another watch reports it", () => others.list.includes("a"));
  const descriptors = openLinks().filter((link) => link === "anon_inode:inotify").length;
  say({
    changes: { ...changes, ...notes.list.length > 0 && { late: notes.list } },
    ...{ descriptors, pipes: pipes() - before },
  });
}

function openLinks(): string[] {
  return readdirSync("/proc/self/fd").map((name) => linkOf(`/proc/self/fd/${name}`));
}

/** How many pipes this process has only one end of. */
function pipes(): number {
  return openLinks().filter((link, i, all) =>
    link.startsWith("pipe:") && all.indexOf(link) === i && all.lastIndexOf(link) === i
  ).length;
}

function listenerOf(notes: { list: string[] }): DirectoryListener {
  return {
    onChange: (name) => void notes.list.push(name),
    onAnyChange: () => void notes.list.push("any"),
    onEnd: () => void notes.list.push("end"),
  };
}

/** A descriptor may be closed by now. */
function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}

/** Locks a file that is closed. */
function lockClosed({ path }: MemberTask & { do: "lock closed" }): void {
  const file = chooseFileSystem().create(path, 0o600);
  file.close();
  sayResult(() => file.tryLock(true));
}

function sayResult(action: () => unknown): void {
  try {
    say({ result: String(action()) });
  } catch (error) {
    const { name, message, code } = error as NodeJS.ErrnoException;
    say({ name, message, code });
  }
}

const task = scriptArgument<MemberTask>();
if (task.do === "count") await count(task);
else if (task.do === "hold") await hold(task);
else if (task.do === "take turns") await takeTurns(task);
else if (task.do === "acquire") await acquire(task);
else if (task.do === "keep") await keep(task);
else if (task.do === "watch") await watch(task);
else if (task.do === "lock closed") lockClosed(task);
else sayResult(() => new FileLock({ dir: task.dir }));
