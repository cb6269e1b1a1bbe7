/**
 * A command that runs under a lease, and ends before anybody else can have the lock.
 *
 * While the lease is renewed, nothing happens. When only `killAfterMs` of it are left, the service has not
 * answered for most of a TTL: the command gets TERM, and at the deadline KILL. A thief does not wait for the
 * deadline, and files and memory have none: there the command gets TERM at the loss, and KILL `killAfterMs`
 * later.
 *
 * @module
 */
import { spawn } from "node:child_process";
import { constants } from "node:os";
import process from "node:process";
import type { Lease } from "../core/contract/distributed_lock.ts";
import type { LeaseLostError } from "../core/contract/errors.ts";

/** Signals that are passed on to the command. */
export const FORWARDED = [
  ...["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"],
  ...["SIGUSR1", "SIGUSR2", "SIGCONT", "SIGWINCH"],
] as readonly NodeJS.Signals[];
/** How often in ms to look whether a lease that a suspension has made unproven is proven again. */
const UNPROVEN_LOOK_MS = 10;
/** The longest delay of a timer in ms. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** How a command ended. */
export interface CommandEnd {
  /** Its exit code, or as in a shell: 128 + the signal that ended it, 127 or 126 if it could not start. */
  readonly code: number;
  /** Why the lease was lost meanwhile; `null` if it was not. */
  readonly lost: LeaseLostError | null;
  /** Whether it was told to end, because the lease was lost or about to be lost. */
  readonly isTold: boolean;
}

/** Runs a command in a process group of its own. Resolves when it has ended. */
export async function runUnder(
  lease: Lease,
  [program, ...args]: readonly [string, ...string[]],
  { killAfterMs, env }: {
    readonly killAfterMs: number;
    readonly env: Readonly<Record<string, string | undefined>>;
  },
): Promise<CommandEnd> {
  const child = spawn(program, args, { detached: true, stdio: "inherit", env });
  const ended = new Promise<number>((resolve) => {
    child.once("error", (error) => resolve(codeOf(error) === "ENOENT" ? 127 : 126));
    child.once("exit", (code, signal) => resolve(code ?? 128 + constants.signals[signal!]));
  });
  const kill = (signal: NodeJS.Signals) => child.pid !== undefined && killGroup(child.pid, signal);
  const listeners = FORWARDED.map((signal) => [signal, () => void kill(signal)] as const);
  for (const [signal, listener] of listeners) process.on(signal, listener);
  const watch = new LeaseWatch(lease, killAfterMs, kill);
  try {
    return { code: await ended, lost: watch.lost, isTold: watch.isTold };
  } finally {
    watch.end();
    for (const [signal, listener] of listeners) process.off(signal, listener);
  }
}

/** Sends a signal to all processes of a group; there may be none any more. */
function killGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if (codeOf(error) !== "ESRCH") throw error;
  }
}

function codeOf(error: unknown): unknown {
  return (error as { readonly code?: unknown }).code;
}

/** Ends a command in time. */
class LeaseWatch {
  lost: LeaseLostError | null = null;
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
    const leftMs = this.#lease.remainingMs;
    if (leftMs > 0 && leftMs <= this.#killAfterMs) this.#tell();
    const nextMs = leftMs > this.#killAfterMs ? leftMs - this.#killAfterMs : UNPROVEN_LOOK_MS;
    this.#timer = setTimeout(() => this.#look(), Math.min(Math.ceil(nextMs), MAX_TIMER_MS));
  }

  #tell(): void {
    if (!this.isTold) this.#kill("SIGTERM");
    this.isTold = true;
  }

  readonly #onLost = () => {
    clearTimeout(this.#timer);
    this.lost = this.#lease.signal.reason as LeaseLostError;
    this.#tell();
    // The deadline is over: from now on somebody else can have the lock.
    if (this.#hasDeadline && this.lost.reason !== "stolen") return this.#kill("SIGKILL");
    this.#timer = setTimeout(() => this.#kill("SIGKILL"), this.#killAfterMs);
  };
}
