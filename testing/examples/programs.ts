/**
 * Runs the examples as processes, as users do.
 *
 * @module
 */
import { rm } from "node:fs/promises";
import { makeTempDirectory } from "../runtime/temporary_files.ts";
import { linesOf } from "../runtime/lines.ts";
import { scriptCommand, type Signal, spawnProcess } from "../runtime/processes.ts";
import { startRedis } from "../servers/redis.ts";
import { waitUntil } from "../servers/wait.ts";
import { KEPT_TTL_MS } from "../time.ts";

const EXAMPLES = new URL("../../examples/", import.meta.url);

/** Where processes keep their locks and files. */
export interface Place extends AsyncDisposable {
  readonly dir: string;
  readonly env: Readonly<Record<string, string>>;
}

/** A place with locks in files. */
export async function filePlace(): Promise<Place> {
  const dir = await makeTempDirectory();
  const env = { TMPDIR: dir, XDG_RUNTIME_DIR: dir, HOLDFAST_URL: "file:" };
  return { dir, env, [Symbol.asyncDispose]: () => rm(dir, { recursive: true }) };
}

/** A place with locks on a new Redis server. */
export async function redisPlace(): Promise<Place> {
  const server = await startRedis();
  const { dir, env, [Symbol.asyncDispose]: dispose } = await filePlace();
  return {
    dir,
    env: { ...env, HOLDFAST_URL: `${server.url}?ttlMs=${KEPT_TTL_MS}` },
    async [Symbol.asyncDispose]() {
      await dispose();
      await server[Symbol.asyncDispose]();
    },
  };
}

/** A running example. */
export interface Program extends AsyncDisposable {
  readonly pid: number;
  /** The lines printed so far. */
  readonly lines: readonly string[];
  readonly ended: Promise<number>;
  kill(signal: Signal): void;
  /** Waits for a line that begins with `start`; resolves with the rest of the line. */
  saying(start: string): Promise<string>;
}

/** Starts an example. */
export function startProgram(file: string, { env }: Place, ...args: string[]): Program {
  const child = spawnProcess([...scriptCommand(new URL(file, EXAMPLES)), ...args], {
    env: { NO_COLOR: "1", ...env },
    stdout: "pipe",
    stderr: "inherit",
  });
  const lines: string[] = [];
  const output = linesOf(child.stdout!);
  const reading = (async () => {
    for (let text; (text = await output.next()) !== null;) lines.push(text);
  })();
  return {
    pid: child.pid,
    lines,
    ended: child.ended.then(({ code }) => code),
    kill: child.kill,
    async saying(start) {
      const find = () => lines.find((line) => line.startsWith(start));
      await waitUntil(`${file} says "${start}"`, () => find() !== undefined);
      return find()!.slice(start.length);
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await child.ended;
      await reading;
    },
  };
}
