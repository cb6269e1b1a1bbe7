/**
 * A command that runs under a lease, and ends before anybody else can have the lock.
 *
 * While the lease is renewed, nothing happens. When only `killAfterMs` of it are left, the service has not
 * answered for most of a TTL: the command gets TERM, and KILL shortly before the deadline. A thief does not wait
 * for the deadline, and files and memory have none: there the command gets TERM at the loss, and KILL
 * `killAfterMs` later.
 *
 * @module
 */
import { spawn, type StdioOptions } from "node:child_process";
import { constants } from "node:os";
import process from "node:process";
import { setTimeout as delay } from "node:timers/promises";
import type { Lease } from "../core/contract/distributed_lock.ts";
import type { LeaseLostError } from "../core/contract/errors.ts";

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
/** The longest delay of a timer in ms. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** How a command runs. */
export interface CommandOptions {
  /** How long it has after TERM, before it is killed. */
  readonly killAfterMs: number;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** A descriptor of this process that it and its children keep open, as their 3. */
  readonly inherited: number | null;
  /** Prints a line for a person. */
  say(text: string): void;
}

/**
 * Runs a command in a process group of its own. Resolves when it has ended; if it was told to end, when no
 * process of its group is left: those that go on for `killAfterMs` are killed. What a command leaves behind of
 * its own accord goes on.
 */
export async function runUnder(
  lease: Lease,
  command: readonly [string, ...string[]],
  { killAfterMs, env, inherited, say }: CommandOptions,
): Promise<{
  /** Its exit code, or as in a shell: 128 + the signal that ended it, 127 or 126 if it could not start. */
  readonly code: number;
  /** The code of the system's error if it could not start. */
  readonly failure?: string;
  /** Whether it was told to end, because the lease was lost or about to be lost. */
  readonly isTold: boolean;
}> {
  let group: Group | undefined;
  let isSignalled = false;
  const listeners = FORWARDED.map((signal): [NodeJS.Signals, () => void] => {
    const forward = () => {
      group?.kill(signal);
      isSignalled ||= ENDING.has(signal);
    };
    return [signal, forward];
  });
  // Ctrl-Z would stop this process but not the command, which has a session of its own: nobody would renew the
  // lock.
  listeners.push([
    "SIGTSTP",
    () => say("Ctrl-Z is ignored while the command runs: end it by Ctrl-C"),
  ]);
  // Before the command can run: it may ask for a signal at once, which would end this process.
  for (const [signal, listener] of listeners) process.on(signal, listener);
  let watch: LeaseWatch | undefined;
  try {
    const started = await start(command, env, inherited);
    if (typeof started === "string") {
      const code = started === "ENOENT" ? 127 : 126;
      return { code, failure: started, isTold: false };
    }
    const { pid, ended } = started;
    const running = group = new Group(pid, say);
    watch = new LeaseWatch(lease, killAfterMs, (signal) => running.kill(signal));
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
  env: CommandOptions["env"],
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
class Group {
  readonly #pid: number;
  readonly #say: (text: string) => void;
  #isKilled = false;
  #isRefused = false;

  constructor(pid: number, say: (text: string) => void) {
    this.#pid = pid;
    this.#say = say;
  }

  /** Sends a signal to all of them; 0 sends none. Returns whether there is one. */
  kill(signal: NodeJS.Signals | 0): boolean {
    this.#isKilled ||= signal === "SIGKILL";
    try {
      process.kill(-this.#pid, signal);
      return true;
    } catch (error) {
      if (codeOf(error) === "ESRCH") return false;
      // An error here would end this process, and the lock with it, while the command goes on.
      if (!this.#isRefused) this.#say("cannot signal the command: it runs as another user");
      this.#isRefused = true;
      return true;
    }
  }

  /**
   * Waits until none is left. Kills those that are left after `killAfterMs`, then waits as long again, at least
   * 1 s: zombies that nobody reaps stay.
   */
  async end(killAfterMs: number): Promise<void> {
    let endMs = performance.now() + killAfterMs;
    while (this.kill(0)) {
      if (performance.now() < endMs) await delay(GROUP_LOOK_MS);
      else if (this.#isKilled) return;
      else {
        this.kill("SIGKILL");
        endMs = performance.now() + Math.max(killAfterMs, KILLED_MS);
      }
    }
  }
}

function codeOf(error: unknown): unknown {
  return (error as { readonly code?: unknown }).code;
}

/** Ends a command in time. */
class LeaseWatch {
  isTold = false;
  readonly #lease: Lease;
  readonly #killAfterMs: number;
  readonly #kill: (signal: NodeJS.Signals) => void;
  readonly #hasDeadline: boolean;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(lease: Lease, killAfterMs: number, kill: (signal: NodeJS.Signals) => void) {
    this.#lease = lease;
    this.#killAfterMs = killAfterMs;
    this.#kill = kill;
    this.#hasDeadline = lease.remainingMs !== Infinity;
    lease.signal.addEventListener("abort", this.#onLost, { once: true });
    if (lease.signal.aborted) this.#onLost();
    else if (this.#hasDeadline) this.#look();
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#lease.signal.removeEventListener("abort", this.#onLost);
  }

  #look(): void {
    const leftMs = this.#lease.remainingMs; // 0 while a suspension makes it unproven
    const earlyMs = this.#killAfterMs * KILL_EARLY_SHARE;
    if (leftMs > 0 && leftMs <= this.#killAfterMs) this.#tell();
    if (leftMs > 0 && leftMs <= earlyMs) this.#kill("SIGKILL");
    const stepMs = [this.#killAfterMs, earlyMs].find((stepMs) => leftMs > stepMs);
    const nextMs = stepMs === undefined ? UNPROVEN_LOOK_MS : leftMs - stepMs;
    this.#timer = setTimeout(() => this.#look(), Math.min(Math.ceil(nextMs), MAX_TIMER_MS));
  }

  #tell(): void {
    if (!this.isTold) this.#kill("SIGTERM");
    this.isTold = true;
  }

  readonly #onLost = () => {
    clearTimeout(this.#timer);
    const { reason } = this.#lease.signal.reason as LeaseLostError;
    this.#tell();
    // The deadline is over: from now on somebody else can have the lock.
    if (this.#hasDeadline && reason !== "stolen") return this.#kill("SIGKILL");
    const killMs = Math.min(this.#killAfterMs, MAX_TIMER_MS);
    this.#timer = setTimeout(() => this.#kill("SIGKILL"), killMs);
  };
}
