/**
 * The process behind `bench/file_lock.ts`: takes file locks and reports when.
 *
 * @module
 */
import process from "node:process";
import type { FileLock } from "../../file/mod.ts";
import { pause } from "../../testing/servers/wait.ts";
import { inputEnd, print, scriptArgument } from "../../testing/runtime/processes.ts";

/** The task of the process. It starts when the process reads a line, and reports one JSON line per item. */
export type Task =
  /** Takes the lock again and again. Reports a {@linkcode Hold} for each grant, at the end. */
  | { readonly do: "contend"; readonly holdMs: number; readonly pauseMs: number }
  /** Takes the lock, reports a {@linkcode Hold}, and keeps it until it is killed. */
  | { readonly do: "keep" }
  /** Waits for many locks that others hold. Reports an {@linkcode IdleCost} at the end. */
  | { readonly do: "wait"; readonly names: number }
  /** Takes the same locks, and keeps them. */
  | { readonly do: "hold"; readonly names: number };

/** The argument of the process. */
export interface ContenderOptions {
  /** The checkout whose `FileLock` is measured, as a file URL that ends in a slash. */
  readonly tree: string;
  readonly dir: string;
  /** Whether the directory cannot be watched, so that waiters poll. */
  readonly isPolling: boolean;
  readonly task: Task;
}

/** One grant. Times are in ms on a clock that all processes share. */
export interface Hold {
  readonly token: string;
  readonly askedMs: number;
  readonly grantedMs: number;
  readonly releasedMs: number;
}

/** The cost of a process that only waits. */
export interface IdleCost {
  readonly seconds: number;
  readonly looks: number;
  readonly cpuMs: number;
  readonly watches: number;
}

const { tree, dir, isPolling, task } = scriptArgument<ContenderOptions>();
const { FileLock: Locks } = await import(`${tree}file/mod.ts`) as { FileLock: typeof FileLock };
if (isPolling) Deno.watchFs = () => unsupported();
const locks = new Locks({ dir });
let isOver = false;
const ended = inputEnd().then(() => void (isOver = true));

function unsupported(): never {
  throw new Error("The directory cannot be watched");
}

function report(item: Hold | IdleCost | "ready"): void {
  print(`${JSON.stringify(item)}\n`);
}

function nowMs(): number {
  return Number(Temporal.Now.instant().epochNanoseconds / 1_000n) / 1_000;
}

async function take(holdMs: number): Promise<Hold> {
  const askedMs = nowMs();
  const lease = await locks.acquire("n");
  const grantedMs = nowMs();
  if (holdMs > 0) await pause(holdMs);
  const releasedMs = nowMs();
  await lease.release();
  return { token: String(lease.fencingToken), askedMs, grantedMs, releasedMs };
}

async function contend(holdMs: number, pauseMs: number): Promise<void> {
  const holds: Hold[] = [];
  while (!isOver) {
    holds.push(await take(holdMs));
    if (pauseMs > 0) await pause(Math.random() * 2 * pauseMs);
  }
  holds.forEach(report);
}

async function keep(): Promise<void> {
  const askedMs = nowMs();
  const lease = await locks.acquire("n");
  const grantedMs = nowMs();
  report({ token: String(lease.fencingToken), askedMs, grantedMs, releasedMs: Infinity });
  await ended;
}

/** Looks at files so far. Each opens its file. */
function countLooks(): () => number {
  const open = Deno.openSync;
  let looks = 0;
  Deno.openSync = (...args) => (looks++, open(...args));
  return () => looks;
}

function watches(): number {
  const fds = [...Deno.readDirSync("/proc/self/fdinfo")];
  const texts = fds.map(({ name }) => textOf(`/proc/self/fdinfo/${name}`));
  return texts.join("").split("\n").filter((line) => line.startsWith("inotify wd")).length;
}

function textOf(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return "";
  }
}

async function waitForAll(names: number): Promise<void> {
  const looks = countLooks();
  const abort = new AbortController();
  const waits = Array.from({ length: names }, (_, i) => {
    return new Promise<void>((resolve) => {
      locks.acquire(`n:${i}`, { signal: abort.signal, onWait: () => resolve() }).catch(() => {});
    });
  });
  await Promise.all(waits);
  await pause(2_000);
  report("ready");
  const [startMs, startLooks, startCpu] = [performance.now(), looks(), process.cpuUsage()];
  await ended;
  const { user, system } = process.cpuUsage(startCpu);
  report({
    seconds: (performance.now() - startMs) / 1_000,
    looks: looks() - startLooks,
    cpuMs: (user + system) / 1_000,
    watches: watches(),
  });
  abort.abort();
}

async function holdAll(names: number): Promise<void> {
  for (let i = 0; i < names; i++) await locks.acquire(`n:${i}`);
  report("ready");
  await ended;
}

switch (task.do) {
  case "contend":
    await contend(task.holdMs, task.pauseMs);
    break;
  case "keep":
    await keep();
    break;
  case "wait":
    await waitForAll(task.names);
    break;
  case "hold":
    await holdAll(task.names);
}
await locks[Symbol.asyncDispose]();
