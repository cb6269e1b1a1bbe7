import { constants } from "node:os";
import process from "node:process";
import { parseArgs } from "node:util";
import type { AcquireOptions, DistributedLock, Lease } from "../core/contract/distributed_lock.ts";
import { LeaseLostError, LockSetupError, LockTimeoutError } from "../core/contract/errors.ts";
import { lockDescriptors } from "../file/lock_descriptor.ts";
import { type CommandContext, EXIT } from "./command.ts";
import { runUnder } from "./guard.ts";

/** Which option of the URL `--ttl` sets. */
const TTL_OPTIONS: readonly (readonly [scheme: RegExp, option: string])[] = [
  [/^redis/i, "ttlMs"],
  [/^zookeeper/i, "sessionTimeoutMs"],
];
/** How long in ms a command has by default after TERM, if half of the lease is not less. */
const KILL_AFTER_MS = 2_000;

export const RUN_HELP = `Usage: holdfast run [options] NAME -- COMMAND [ARGUMENT ...]

Waits for the lock NAME, runs COMMAND under it, and exits as COMMAND does.

  --at URL          where the locks are; HOLDFAST_URL by default
  --wait 30s        exit with 75 if it is busy for so long; forever by default
  --no-wait         exit with 75 if the lock is busy
  -E CODE           exit with CODE instead of 75
  --shared          holds it beside other shared holders (Redis, ZooKeeper)
  --limit N         the same, with at most N holders (Redis)
  --ttl 10s         how long a dead holder blocks it (Redis, ZooKeeper)
  --kill-after 2s   from TERM to KILL in an outage; at most half of the lease
  --label TEXT      shown to those who ask; host and process id by default

COMMAND finds the name in HOLDFAST_NAME, the fencing token in HOLDFAST_TOKEN.
If the service does not answer, it gets TERM in time, and KILL before anybody
else can have the lock: the code is then 76. If holdfast itself is killed by
force or frozen, COMMAND goes on: on files (Linux) with the lock, else without.
Codes: 64 wrong arguments, 69 no service, 78 service refuses, 127 no COMMAND.

Example: holdfast run --at redis://127.0.0.1 --no-wait nightly -- ./report.sh`;

/** `holdfast run`: runs a command while it holds a lock. Resolves with the exit code. */
export async function run(
  args: readonly string[],
  context: CommandContext,
  platform: string = process.platform,
): Promise<number> {
  const { name, command, url, label, options, killAfterMs, busyCode } = readTerms(args, context);
  if (platform === "win32") {
    throw new LockSetupError(
      "Cannot run a command on Windows, where it could not be ended with all its processes: use WSL or " +
        "a container",
    );
  }
  // Those of a `run` around this one, with another directory.
  const inherited = lockDescriptors(name);
  const stop = new AbortController();
  const listeners = (["SIGHUP", "SIGINT", "SIGTERM"] as const)
    .map((signal) => [signal, () => stop.abort(signal)] as const);
  for (const [signal, listener] of listeners) process.on(signal, listener);
  try {
    return await context.withLocks(url, async (locks) => {
      const lease = await acquire(locks, name, { ...options, signal: stop.signal });
      let own: number | null = null;
      try {
        if (stop.signal.aborted) return codeOfSignal(stop.signal);
        if (lease !== null) {
          // On files, the command keeps the lock even if this process is killed by force.
          own = lockDescriptors(name).find((fd) => !inherited.includes(fd)) ?? null;
          return await runCommand(lease, command, killAfterMs, own, stop.signal, context);
        }
        context.say(`${JSON.stringify(name)} is busy`);
        return busyCode;
      } finally {
        await lease?.release();
        // A process that the command has left may share the open file: then the release closes nothing, and wakes
        // nobody. This look opens the file anew, and its close wakes the waiters.
        if (own !== null) await locks.query(name, { maxWaiters: 0 }).catch(() => {});
      }
    }, label);
  } finally {
    for (const [signal, listener] of listeners) process.off(signal, listener);
  }
}

function readTerms(args: readonly string[], context: CommandContext) {
  const { values, positionals, tokens } = parseArgs({
    args: [...args],
    allowPositionals: true,
    tokens: true,
    options: {
      at: { type: "string" },
      wait: { type: "string" },
      "no-wait": { type: "boolean" },
      "busy-code": { type: "string", short: "E" },
      shared: { type: "boolean" },
      limit: { type: "string" },
      ttl: { type: "string" },
      "kill-after": { type: "string" },
      label: { type: "string" },
    },
  });
  const { wait, shared, limit, label } = values;
  const noWait = values["no-wait"];
  const [name, program, ...rest] = positionals;
  if (name === undefined) throw new TypeError("the name of the lock is missing");
  // Else options of the command would be taken for those of `run`.
  const optionsEnd = tokens.find(({ kind }) => kind === "option-terminator")?.index ?? Infinity;
  const command = tokens.filter(({ kind }) => kind === "positional")[1];
  if (program === undefined || command!.index < optionsEnd) {
    throw new TypeError("the command is missing: write it behind --");
  }
  if (wait !== undefined && noWait) throw new TypeError("--wait and --no-wait exclude each other");
  const busyCode = readNumber("-E", values["busy-code"] ?? `${EXIT.busy}`, 0, 255);
  const killAfter = values["kill-after"];
  const killAfterMs = killAfter === undefined ? undefined : readDuration("--kill-after", killAfter);
  const waitMs = noWait ? 0 : wait === undefined ? undefined : readDuration("--wait", wait);
  const options: AcquireOptions = {
    waitMs,
    ...shared ? { mode: "shared" } : {},
    ...limit === undefined ? {} : { limit: readNumber("--limit", limit, 1, 10_000) },
  };
  const url = withTtl(context.url(values.at), values.ttl);
  return { name, command: [program, ...rest] as const, url, label, options, killAfterMs, busyCode };
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** Reads a duration such as `500ms`, `30s`, `2m` or `1h`, in ms. */
function readDuration(option: string, text: string): number {
  const [, digits, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text) ?? [];
  if (unit === undefined) {
    throw new TypeError(`${option} must be a duration such as 500ms, 30s or 2m`);
  }
  return Math.round(Number(digits) * UNITS[unit]!);
}

function readNumber(option: string, text: string, min: number, max: number): number {
  const number = Number(text);
  if (/^\d+$/.test(text) && number >= min && number <= max) return number;
  throw new TypeError(`${option} must be a whole number from ${min} to ${max}`);
}

/** Runs the command. Resolves with its exit code, or that of a lost lease. */
async function runCommand(
  lease: Lease,
  command: readonly [string, ...string[]],
  wantedMs: number | undefined,
  lockFile: number | null,
  stop: AbortSignal,
  context: CommandContext,
): Promise<number> {
  await lease.renew(); // a lease from the queue begins as a claim, which may be shorter
  if (stop.aborted) return codeOfSignal(stop);
  // A renewal is due while more than half of the lease is left.
  const longestMs = Math.floor(lease.remainingMs / 2);
  if (wantedMs !== undefined && wantedMs > longestMs) {
    const lasts = `${Math.round(lease.remainingMs)} ms`;
    throw new TypeError(`--kill-after must be at most half of the lease, which lasts ${lasts}`);
  }
  const killAfterMs = wantedMs ?? Math.min(KILL_AFTER_MS, longestMs);
  const { name, fencingToken } = lease;
  const env = { ...process.env, HOLDFAST_NAME: name, HOLDFAST_TOKEN: `${fencingToken}` };
  const { say } = context;
  const end = await runUnder(lease, command, { killAfterMs, env, inherited: lockFile, say });
  const { code, failure, isTold } = end;
  if (failure !== undefined) {
    say(`cannot run ${command[0]} (${failure}): is it installed, and may this user run it?`);
    return code;
  }
  // A lock that was deleted or taken since the last renewal: only the release finds that.
  const isOurs = await lease.release();
  // A command that was told to end may end with 0 half-way.
  if (isOurs && !isTold) return code;
  say(describeLoss(lease) ?? `no renewal of ${JSON.stringify(name)} was answered`);
  return EXIT.lost;
}

/** Says how a lease was lost; `null` if it was merely released. */
function describeLoss(lease: Lease): string | null {
  try {
    lease.throwIfLost();
  } catch (error) {
    if (error instanceof LeaseLostError) return error.message;
  }
  return null;
}

/** The exit code of a process that a signal ends. */
function codeOfSignal({ reason }: AbortSignal): number {
  return 128 + constants.signals[reason as NodeJS.Signals];
}

function withTtl(url: string, ttl: string | undefined): string {
  if (ttl === undefined) return url;
  const option = TTL_OPTIONS.find(([scheme]) => scheme.test(url))?.[1];
  if (option === undefined) throw new TypeError("--ttl is for Redis and ZooKeeper only");
  return `${url}${url.includes("?") ? "&" : "?"}${option}=${readDuration("--ttl", ttl)}`;
}

/** Waits until the lock is granted; `null` if it was busy for `waitMs`, or the signal has aborted. */
async function acquire(
  locks: DistributedLock,
  name: string,
  options: AcquireOptions,
): Promise<Lease | null> {
  try {
    return await locks.acquire(name, options);
  } catch (error) {
    if (error instanceof LockTimeoutError || options.signal?.aborted) return null;
    throw error;
  }
}
