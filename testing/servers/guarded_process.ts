/**
 * Child processes that cannot outlive this one, however it ends. A small shell in its own session, the
 * lifeline, reads from a pipe that only this process holds open. When the pipe ends, on disposal or
 * because this process has died, the lifeline kills the guarded process and removes its files.
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

/** Waits for a line before it starts the program, so that the lifeline knows the process id first. */
const LAUNCH_SCRIPT = `
read -r go || exit 0
log=$1
shift
exec "$@" </dev/null >>"$log" 2>&1
`;

/** Both shells read from a pipe. In their own session they get no signals from a terminal. */
const OF_SHELLS: SpawnOptions = { hasInput: true, isDetached: true };

/** Options of a lifeline. */
export interface LifelineOptions {
  /** A file or directory to remove at the end. */
  readonly remove?: string;
  /** A command to run at the end, after the guarded process was killed. */
  readonly stop?: readonly string[];
}

/** Kills one process on disposal, or when this process ends. */
export interface Lifeline extends AsyncDisposable {
  /** Guards the process with this id from now on. */
  guard(pid: number): Promise<void>;
  /** Stops guarding: the process has ended, and the system may reuse its id. */
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

/** The command to run, and the clean-up after it. */
export interface GuardedOptions extends LifelineOptions {
  /** The program and its arguments. */
  readonly command: readonly string[];
  /** The file for the program's output; discarded by default. */
  readonly logFile?: string;
}

/** A process that does not outlive this one. */
export interface GuardedProcess extends AsyncDisposable {
  /** The id of the latest run. */
  readonly pid: number;
  readonly isRunning: boolean;
  /** Resolves when the latest run has ended. */
  readonly exited: Promise<ProcessEnd>;
  /** Sends a signal, SIGKILL by default; does nothing after the process has ended. */
  kill(signal?: Signal): void;
  /** Kills the process if it still runs, then starts its command again, or another one. */
  restart(command?: readonly string[]): Promise<void>;
}

interface Run {
  readonly child: SpawnedProcess;
  readonly exited: Promise<ProcessEnd>;
  isRunning: boolean;
}

/** Starts a process that does not outlive this one. */
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
