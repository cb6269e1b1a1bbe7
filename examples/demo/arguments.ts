/**
 * The demo's command line.
 *
 * @module
 */
import { parseArgs } from "node:util";

/** The strategies that can be shown. */
export const BACKENDS = ["file", "redis", "zookeeper", "memory"] as const;

/** One of the strategies. */
export type BackendName = typeof BACKENDS[number];

/** The options of the demo. */
export interface DemoOptions {
  readonly backend: BackendName;
  readonly workers: number;
  readonly rounds: number;
  /** The address of an existing server. */
  readonly url: string | null;
  /** Whether a worker is killed while it holds the lock. */
  readonly kill: boolean;
  /** Whether a missing server must not be installed. */
  readonly isInstallRefused: boolean;
  /** The file for a picture of the run. */
  readonly svg: string | null;
}

/** The help text of the demo. */
export const USAGE = `Usage: deno task demo [options]

Workers repeatedly add 1 to a shared account under one lock: they read it, work for a moment
and write it. Then the demo shows that no update was lost, and how many are lost without a lock.

  --backend NAME  the kind of lock: file (default), redis, zookeeper or memory
  --workers N     the number of workers, 1 to 64 (4 by default)
  --rounds N      how often each worker adds 1, 1 to 10000 (50 by default)
  --url URL       an existing server: redis://host:port, or a ZooKeeper connect string such as
                  host1:2181,host2:2181. Without it: REDIS_URL or ZOOKEEPER_CONNECT if set,
                  otherwise a throw-away server in Docker or from an installed program (which
                  is installed first on Debian and Ubuntu, as root)
  --no-install    never install a missing server, the same as HOLDFAST_NO_INSTALL=1
  --kill          kill one worker with SIGKILL while it holds the lock
  --svg FILE      also draw the run under the lock, or 40 holds of it, as an SVG picture
  --help          print this text

Exits with 0 if all checks passed, 1 if not, 2 if an argument is wrong.`;

/**
 * Reads the command line.
 *
 * @returns The options; `null` for `--help`.
 * @throws {Error} If an argument is wrong; the message says what to give instead.
 */
export function readArguments(args: readonly string[]): DemoOptions | null {
  const { values } = parseArgs({
    args: [...args],
    options: {
      backend: { type: "string", default: "file" },
      workers: { type: "string", default: "4" },
      rounds: { type: "string", default: "50" },
      url: { type: "string" },
      kill: { type: "boolean", default: false },
      svg: { type: "string" },
      "no-install": { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return null;
  const backend = BACKENDS.find((name) => name === values.backend);
  if (backend === undefined) {
    throw new Error(
      `Cannot use --backend "${values.backend}": choose one of ${BACKENDS.join(", ")}`,
    );
  }
  const workers = wholeNumber("workers", values.workers, 64);
  const rounds = wholeNumber("rounds", values.rounds, 10_000);
  const { kill, url = null, svg = null } = values;
  if (svg === "") throw new Error('Cannot use --svg "": give the name of a file');
  if (url !== null) checkUrl(backend, url);
  if (kill && backend === "memory") {
    throw new Error("Cannot use --kill with memory locks, which live in one process: leave it out");
  }
  if (kill && workers === 1) {
    throw new Error("Cannot use --kill with one worker: add others with --workers");
  }
  return { backend, workers, rounds, url, kill, svg, isInstallRefused: values["no-install"] };
}

function wholeNumber(option: string, text: string, max: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : 0;
  if (value >= 1 && value <= max) return value;
  throw new Error(`Cannot use --${option} "${text}": give a whole number from 1 to ${max}`);
}

/** Errors do not repeat the URL, as it may contain a password. */
function checkUrl(backend: BackendName, url: string): void {
  if (backend === "redis") {
    if (/^rediss?:\/\/[^/]/.test(url) && URL.canParse(url)) return;
    throw new Error("Cannot use --url: give a Redis URL such as redis://127.0.0.1:6379");
  }
  if (backend === "zookeeper") {
    if (/^[^\s,/:]+(:\d+)?(,[^\s,/:]+(:\d+)?)*(\/\S*)?$/.test(url)) return;
    throw new Error("Cannot use --url: give a ZooKeeper connect string such as 127.0.0.1:2181");
  }
  throw new Error(`Cannot use --url with ${backend} locks, which need no server: leave it out`);
}
