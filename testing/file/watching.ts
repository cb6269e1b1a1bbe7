/**
 * Takes the watch of a directory, or the slow looks, away from the waiters of this process, and counts
 * their looks.
 *
 * @module
 */
import { BACKGROUND_CLOCK, type Clock, SYSTEM_CLOCK } from "../../core/time/clock.ts";
import { waitUntil } from "../servers/wait.ts";

/** Timers of this length, in ms, or longer are slow looks. */
const SLOW_MS = 900;

/** A count, until disposal. */
export interface Count extends Disposable {
  readonly count: number;
}

/** No directory can be watched until disposal. Counts the attempts. */
export function withoutWatches(): Count {
  const watchFs = Deno.watchFs;
  let count = 0;
  Deno.watchFs = () => {
    count++;
    throw new Error("No space left on device (os error 28): the limit of watches is reached");
  };
  return {
    get count() {
      return count;
    },
    [Symbol.dispose]: () => void (Deno.watchFs = watchFs),
  };
}

/** Waiters that are not notified of a change look no more, until disposal. */
export function withoutSlowLooks(): Disposable {
  const schedule = SYSTEM_CLOCK.schedule;
  SYSTEM_CLOCK.schedule = (callback, delayMs) =>
    schedule(callback, delayMs < SLOW_MS ? delayMs : 3_600_000);
  return { [Symbol.dispose]: () => void (SYSTEM_CLOCK.schedule = schedule) };
}

/** Waiters, and what is done in the background, take the time from another clock, until disposal. */
export function withClock(clock: Clock): Disposable {
  const { now, wall, schedule } = SYSTEM_CLOCK;
  SYSTEM_CLOCK.now = BACKGROUND_CLOCK.now = () => clock.now();
  SYSTEM_CLOCK.wall = BACKGROUND_CLOCK.wall = () => clock.wall();
  SYSTEM_CLOCK.schedule = (callback, delayMs) => clock.schedule(callback, delayMs);
  return {
    [Symbol.dispose]() {
      Object.assign(SYSTEM_CLOCK, { now, wall, schedule });
      Object.assign(BACKGROUND_CLOCK, { now, wall });
    },
  };
}

/** Counts how often this process opens a file, which each look does. */
export function countOpens(path: string): Count {
  const openSync = Deno.openSync;
  let count = 0;
  Deno.openSync = (opened, options) => {
    if (opened === path) count++;
    return openSync(opened, options);
  };
  return {
    get count() {
      return count;
    },
    [Symbol.dispose]: () => void (Deno.openSync = openSync),
  };
}

/** Waits until this user may watch one more directory: the system counts those of all processes. */
export async function watchable(dir: string): Promise<void> {
  await waitUntil("the system lets this process watch a directory", () => {
    try {
      Deno.watchFs(dir).close();
      return true;
    } catch {
      return false;
    }
  });
}

/** Resolves when the system has reported what happened in a directory until now. */
export async function changesReported(dir: string): Promise<void> {
  const mark = `${dir}/mark-${crypto.randomUUID()}`;
  using watcher = Deno.watchFs(dir, { recursive: false });
  Deno.writeTextFileSync(mark, "");
  for await (const { paths } of watcher) if (paths.includes(mark)) break;
  Deno.removeSync(mark);
}

/** How many watches this process has on a directory. */
export function watchesOf(dir: string): number {
  const ino = `ino:${Deno.statSync(dir).ino!.toString(16)} `;
  const lines = [...Deno.readDirSync("/proc/self/fdinfo")].flatMap(({ name }) =>
    textOf(`/proc/self/fdinfo/${name}`).split("\n")
  );
  return lines.filter((line) => line.startsWith("inotify wd:") && line.includes(ino)).length;
}

/** A file may be closed by now. */
function textOf(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return "";
  }
}
