/**
 * Runs the examples as processes of their own, as their users do.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { linesOf } from "../processes/child.ts";
import { startRedis } from "../servers/redis.ts";
import { waitUntil } from "../servers/wait.ts";

const EXAMPLES = new URL("../../examples/", import.meta.url);
const CONFIG = fileURLToPath(new URL("../../deno.json", import.meta.url));

/** Where the locks and the files of some processes are. */
export interface Place extends AsyncDisposable {
  readonly dir: string;
  readonly env: Readonly<Record<string, string>>;
}

/** Locks in files. */
export async function filePlace(): Promise<Place> {
  const dir = await Deno.makeTempDir({ prefix: "holdfast-" });
  const env = { TMPDIR: dir, XDG_RUNTIME_DIR: dir, REDIS_URL: "", ZOOKEEPER_CONNECT: "" };
  return { dir, env, [Symbol.asyncDispose]: () => Deno.remove(dir, { recursive: true }) };
}

/** Locks on a Redis of the test's own. */
export async function redisPlace(): Promise<Place> {
  const server = await startRedis();
  const { dir, env, [Symbol.asyncDispose]: dispose } = await filePlace();
  return {
    dir,
    env: { ...env, REDIS_URL: server.url },
    async [Symbol.asyncDispose]() {
      await dispose();
      await server[Symbol.asyncDispose]();
    },
  };
}

/** An example that runs. */
export interface Program extends AsyncDisposable {
  readonly pid: number;
  /** What it has printed so far. */
  readonly lines: readonly string[];
  readonly ended: Promise<number>;
  kill(signal: Deno.Signal): void;
  /** Waits until it has printed a line that begins like this; resolves with the rest of it. */
  saying(start: string): Promise<string>;
}

/** Starts an example. */
export function startProgram(file: string, { env }: Place, ...args: string[]): Program {
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "-A", "--no-check", "--config", CONFIG],
      ...[fileURLToPath(new URL(file, EXAMPLES)), ...args],
    ],
    env: { NO_COLOR: "1", ...env },
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const lines: string[] = [];
  const output = linesOf(child.stdout);
  const reading = (async () => {
    for (let text; (text = await output.next()) !== null;) lines.push(text);
  })();
  return {
    pid: child.pid,
    lines,
    ended: child.status.then(({ code }) => code),
    kill: (signal) => child.kill(signal),
    async saying(start) {
      const find = () => lines.find((line) => line.startsWith(start));
      await waitUntil(`${file} says "${start}"`, () => find() !== undefined);
      return find()!.slice(start.length);
    },
    async [Symbol.asyncDispose]() {
      try {
        child.kill("SIGKILL");
      } catch {
        // It has ended by itself.
      }
      await child.status;
      await reading;
    },
  };
}
