/**
 * Child processes that cannot outlive this one, however it ends.
 *
 * A small POSIX shell in a session of its own, the lifeline, reads from a pipe that only this
 * process holds. When the pipe ends, because of a dispose or because this process is gone, the
 * lifeline kills what it guards and removes its files.
 *
 * @module
 */
import {
  type ProcessEnd,
  type Signal,
  type SpawnedProcess,
  type SpawnOptions,
  spawnProcess,
} from "../runtime/processes.ts";

const LIFELINE_SCRIPT = `
trap '' HUP INT TERM
path=$1
shift
pid=
while read -r line; do pid=$line; done
[ -z "$pid" ] || kill -9 "$pid"
[ $# -eq 0 ] || "$@"
[ -z "$path" ] || rm -rf "$path" || { sleep 1; rm -rf "$path"; }
`;

/** Starts nothing before the lifeline knows the process id: at the end of its input it gives up. */
const LAUNCH_SCRIPT = `
read -r go || exit 0
log=$1
shift
exec "$@" </dev/null >>"$log" 2>&1
`;

/** Both shells read from a pipe; a session of its own keeps signals of a terminal away. */
const OF_SHELLS: SpawnOptions = { hasInput: true, isDetached: true };

/** What the lifeline does when this process ends. */
export interface LifelineOptions {
  /** The path of a file or directory to remove in the end. */
  readonly remove?: string;
  /** Run in the end, after the guarded process was killed. */
  readonly stop?: readonly string[];
}

/** Kills one process, when disposed of or when this process is gone. */
export interface Lifeline extends AsyncDisposable {
  /** Guards the process with this id from now on. */
  guard(pid: number): Promise<void>;
  /** Guards nothing from now on; the process has ended and its id may be used anew. */
  forget(): Promise<void>;
}

/** Opens a lifeline that guards nothing yet. */
export function openLifeline(options: LifelineOptions = {}): Lifeline {
  const command = ["sh", "-c", LIFELINE_SCRIPT, "lifeline", options.remove ?? ""];
  const child = spawnProcess([...command, ...options.stop ?? []], OF_SHELLS);
  let ended: Promise<unknown> | undefined;
  return {
    guard: (pid) => child.write(`${pid}\n`),
    forget: () => child.write("\n"),
    async [Symbol.asyncDispose]() {
      ended ??= child.endInput().then(() => child.ended);
      await ended;
    },
  };
}

/** What to run, and what to clean up after it. */
export interface GuardedOptions extends LifelineOptions {
  /** The program and its arguments. */
  readonly command: readonly string[];
  /** Gets the program's output; thrown away by default. */
  readonly logFile?: string;
}

/** A process that ends with this one at the latest. */
export interface GuardedProcess extends AsyncDisposable {
  /** The id of the process started last. */
  readonly pid: number;
  readonly isRunning: boolean;
  /** Resolves when the process started last has ended. */
  readonly exited: Promise<ProcessEnd>;
  /** Sends a signal; does nothing when the process has ended. */
  kill(signal?: Signal): void;
  /** Kills the process if it still runs, then starts it again, or another command instead. */
  restart(command?: readonly string[]): Promise<void>;
}

interface Run {
  readonly child: SpawnedProcess;
  readonly exited: Promise<ProcessEnd>;
  isRunning: boolean;
}

/** Starts a process that ends with this one at the latest. */
export async function startGuarded(options: GuardedOptions): Promise<GuardedProcess> {
  const lifeline = openLifeline(options);
  const start = (command: readonly string[]) =>
    launch(command, options.logFile ?? "/dev/null", lifeline);
  let run: Run;
  try {
    run = await start(options.command);
  } catch (error) {
    await lifeline[Symbol.asyncDispose]();
    throw error;
  }
  const kill = (signal: Signal = "SIGKILL") => {
    if (run.isRunning) run.child.kill(signal);
  };
  return {
    get pid() {
      return run.child.pid;
    },
    get isRunning() {
      return run.isRunning;
    },
    get exited() {
      return run.exited;
    },
    kill,
    async restart(command = options.command) {
      kill();
      await run.exited;
      run = await start(command);
    },
    async [Symbol.asyncDispose]() {
      kill();
      await run.exited;
      await lifeline[Symbol.asyncDispose]();
    },
  };
}

async function launch(
  command: readonly string[],
  logFile: string,
  lifeline: Lifeline,
): Promise<Run> {
  const child = spawnProcess(["sh", "-c", LAUNCH_SCRIPT, "launch", logFile, ...command], OF_SHELLS);
  const exited = child.ended.then(async (end) => {
    run.isRunning = false;
    await lifeline.forget().catch(() => {});
    return end;
  });
  const run: Run = { child, exited, isRunning: true };
  try {
    await lifeline.guard(child.pid);
    await child.write("go\n");
  } finally {
    await child.endInput();
  }
  return run;
}
