/**
 * A command that runs under a lease, and ends before anybody else can have the lock.
 *
 * When only `killAfterMs` of the lease are left, the service has not answered for most of a TTL: the command gets
 * TERM, and KILL shortly before the deadline. A thief does not wait for the deadline, and files and memory have none:
 * there the command gets TERM at the loss, and KILL `killAfterMs` later.
 *
 * @module
 */
import { spawn, type StdioOptions } from "node:child_process";
import { constants } from "node:os";
import process from "node:process";
import { setTimeout as delay } from "node:timers/promises";
import type { Lease } from "../core/contract/distributed_lock.ts";
import type { LeaseLostError } from "../core/contract/errors.ts";
import { type Cancel, SYSTEM_CLOCK } from "../core/time/clock.ts";

/** Signals that are passed on to the command. */
const FORWARDED = [
  ...["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"],
  ...["SIGUSR1", "SIGUSR2", "SIGCONT", "SIGWINCH"],
] as readonly NodeJS.Signals[];
/** Those of them after which the command should end. */
const ENDING: ReadonlySet<string> = new Set(["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"]);
/**
 * KILL comes this part of `killAfterMs` before the deadline: it takes a moment, and so may this process on a busy
 * machine, while the others wait for the deadline only.
 */
const KILL_EARLY_SHARE = 1 / 10;
/** How often in ms to look whether a process of the group is left. */
const GROUP_LOOK_MS = 10;
/** How often in ms to look whether a lease that a suspension has made unproven is proven again. */
const UNPROVEN_LOOK_MS = 10;
/** How long in ms killed processes have at least for their end. */
const KILLED_MS = 1_000;

/**
 * Runs a command in its own process group. Resolves when it has ended; if it was told to end, when no process of its
 * group is left: those that go on for `killAfterMs` are killed. What it leaves behind of its own accord goes on.
 */
export async function runUnder(
  lease: Lease,
  command: readonly [string, ...string[]],
  { killAfterMs, env, inherited, say }: {
    /** How long it has after TERM, before it is killed. */
    readonly killAfterMs: number;
    readonly env: NodeJS.ProcessEnv;
    /** A descriptor of this process that it and its children keep open, as their 3. */
    readonly inherited: number | null;
    /** Prints a line for a person. */
    say(text: string): void;
  },
): Promise<{
  /** Its exit code, or as in a shell: 128 + the signal that ended it, 127 or 126 if it could not start. */
  readonly code: number;
  /** The code of the system's error if it could not start. */
  readonly failure?: string;
  /** Whether it was told to end, because the lease was lost or about to be lost. */
  readonly isTold: boolean;
}> {
  let group: ReturnType<typeof groupOf> | undefined;
  let isSignalled = false;
  const listeners = FORWARDED.map((signal): [NodeJS.Signals, () => void] => {
    const forward = () => {
      group?.kill(signal);
      isSignalled ||= ENDING.has(signal);
    };
    return [signal, forward];
  });
  // Ctrl-Z would stop this process, not the command, which has its own session: nobody would renew the lock.
  listeners.push([
    "SIGTSTP",
    () => say("Ctrl-Z is ignored while the command runs: end it by Ctrl-C"),
  ]);
  // Before the command can run: it may ask for a signal at once, which would end this process.
  for (const [signal, listener] of listeners) process.on(signal, listener);
  let watch: ReturnType<typeof watchLease> | undefined;
  try {
    const started = await start(command, env, inherited);
    if (typeof started === "string") {
      const code = started === "ENOENT" ? 127 : 126;
      return { code, failure: started, isTold: false };
    }
    const { pid, ended } = started;
    group = groupOf(pid, say);
    watch = watchLease(lease, killAfterMs, group.kill);
    const code = await ended;
    if (watch.isTold || isSignalled) await group.end(killAfterMs);
    return { code, isTold: watch.isTold };
  } finally {
    watch?.end();
    for (const [signal, listener] of listeners) process.off(signal, listener);
  }
}

/** Starts a command; resolves with the code of the system's error if it cannot be started. */
function start(
  [program, ...args]: readonly [string, ...string[]],
  env: NodeJS.ProcessEnv,
  inherited: number | null,
): Promise<string | { readonly pid: number; readonly ended: Promise<number> }> {
  const stdio: StdioOptions = ["inherit", "inherit", "inherit"];
  if (inherited !== null) stdio.push(inherited);
  return new Promise((resolve) => {
    try {
      const child = spawn(program, args, { detached: true, stdio, env });
      const ended = new Promise<number>((resolve) => {
        child.once("exit", (code, signal) => resolve(code ?? 128 + constants.signals[signal!]));
      });
      child.once("error", (error) => resolve(String(codeOf(error))));
      if (child.pid !== undefined) resolve({ pid: child.pid, ended });
    } catch (error) {
      resolve(String(codeOf(error)));
    }
  });
}

/** The processes of a command. */
function groupOf(pid: number, say: (text: string) => void) {
  let [isKilled, isRefused] = [false, false];
  /** Sends a signal to all of them; 0 sends none. Returns whether there is one. */
  const kill = (signal: NodeJS.Signals | 0): boolean => {
    isKilled ||= signal === "SIGKILL";
    try {
      process.kill(-pid, signal);
      return true;
    } catch (error) {
      if (codeOf(error) === "ESRCH") return false;
      // An error here would end this process, and the lock with it, while the command goes on.
      if (!isRefused) say("cannot signal the command: it runs as another user");
      isRefused = true;
      return true;
    }
  };
  /**
   * Waits until none is left. Kills those that are left after `killAfterMs`, then waits as long again, at least
   * 1 s: zombies that nobody reaps stay.
   */
  const end = async (killAfterMs: number): Promise<void> => {
    let endMs = performance.now() + killAfterMs;
    while (kill(0)) {
      if (performance.now() < endMs) await delay(GROUP_LOOK_MS);
      else if (isKilled) return;
      else {
        kill("SIGKILL");
        endMs = performance.now() + Math.max(killAfterMs, KILLED_MS);
      }
    }
  };
  return { kill, end };
}

function codeOf(error: unknown): unknown {
  return (error as { readonly code?: unknown }).code;
}

/** Ends a command in time. */
function watchLease(lease: Lease, killAfterMs: number, kill: (signal: NodeJS.Signals) => void) {
  const hasDeadline = lease.remainingMs !== Infinity;
  let isTold = false;
  let cancel: Cancel | undefined;
  const tell = () => {
    if (!isTold) kill("SIGTERM");
    isTold = true;
  };
  const look = () => {
    const leftMs = lease.remainingMs; // 0 while a suspension makes it unproven
    const earlyMs = killAfterMs * KILL_EARLY_SHARE;
    if (leftMs > 0 && leftMs <= killAfterMs) tell();
    if (leftMs > 0 && leftMs <= earlyMs) kill("SIGKILL");
    const stepMs = [killAfterMs, earlyMs].find((stepMs) => leftMs > stepMs);
    const nextMs = stepMs === undefined ? UNPROVEN_LOOK_MS : leftMs - stepMs;
    cancel = SYSTEM_CLOCK.schedule(look, nextMs);
  };
  const onLost = () => {
    cancel?.();
    const { reason } = lease.signal.reason as LeaseLostError;
    tell();
    // The deadline is over: from now on somebody else can have the lock.
    if (hasDeadline && reason !== "stolen") return kill("SIGKILL");
    cancel = SYSTEM_CLOCK.schedule(() => kill("SIGKILL"), killAfterMs);
  };
  lease.signal.addEventListener("abort", onLost, { once: true });
  if (lease.signal.aborted) onLost();
  else if (hasDeadline) look();
  return {
    /** Whether the command was told to end. */
    get isTold() {
      return isTold;
    },
    end() {
      cancel?.();
      lease.signal.removeEventListener("abort", onLost);
    },
  };
}
