/**
 * Kinds of stress for a run of the tests. None outlives this process, and disposal ends it.
 *
 * @module
 */
import { copyFile, mkdir, rm } from "node:fs/promises";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import process from "node:process";
import { NPM_FOLDER_VARIABLE } from "../npm/cache.ts";
import { makeTempDirectory } from "../runtime/temporary_files.ts";
import { scriptCommand } from "../runtime/processes.ts";
import { runCommand } from "../servers/command.ts";
import { openLifeline, startGuarded } from "../servers/guarded_process.ts";

const BUSY_LOOP = ["sh", "-c", "while :; do :; done"];
const BUSY_LOOPS = 2;
const DISK_WRITER = new URL("./disk_writer.ts", import.meta.url);
const TASKSET_BOUND_MS = 10_000;

const START = {
  cpu: startBusyLoops,
  "one-core": useOneCore,
  disk: startDiskWriter,
  cold: useFreshCaches,
} as const;

/** A kind of stress. */
export type Stress = keyof typeof START;

/** All kinds. */
export const STRESSES = Object.keys(START) as Stress[];

/** True for the name of a kind. */
export function isStress(name: string): name is Stress {
  return Object.hasOwn(START, name);
}

/**
 * Starts a kind of stress, which lasts until disposal.
 *
 * @throws {Error} If this machine lacks what it needs.
 */
export function startStress(kind: Stress): Promise<AsyncDisposable> {
  return START[kind]();
}

/** Two processes at normal priority that compute. */
async function startBusyLoops(): Promise<AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  for (let i = 0; i < BUSY_LOOPS; i++) stack.use(await startGuarded({ command: BUSY_LOOP }));
  return stack.move();
}

/** A process that writes and syncs in a temporary folder. */
async function startDiskWriter(): Promise<AsyncDisposable> {
  const remove = await makeTempDirectory();
  const command = [...scriptCommand(DISK_WRITER), JSON.stringify(remove)];
  return await startGuarded({ command, remove });
}

/** Keeps this process, and all that it starts, on one core. */
async function useOneCore(): Promise<AsyncDisposable> {
  const cores = / list: (\S+)/.exec(await taskset(`${process.pid}`))?.[1];
  if (cores === undefined) {
    throw new Error("Cannot read from taskset which cores this process uses");
  }
  // A list is like "0-3,8".
  await taskset(parseInt(cores).toString(), `${process.pid}`);
  return { [Symbol.asyncDispose]: async () => void await taskset(cores, `${process.pid}`) };
}

/** Shows or sets the cores of all threads of a process. */
async function taskset(...args: string[]): Promise<string> {
  const command = ["taskset", "--all-tasks", "--cpu-list", "--pid", ...args];
  const { success, output } = await runCommand(command, TASKSET_BOUND_MS);
  if (success) return output;
  throw new Error("Cannot keep the tests on one core: this needs taskset of util-linux");
}

/** A new home folder, in which no package has been downloaded. */
async function useFreshCaches(): Promise<AsyncDisposable> {
  const folder = await makeTempDirectory();
  await using stack = new AsyncDisposableStack();
  const lifeline = openLifeline({ remove: folder });
  stack.defer(async () => {
    await rm(folder, { recursive: true, force: true });
    await lifeline[Symbol.asyncDispose]();
  });
  await mkdir(`${folder}/home`);
  // How to reach the registry is not a cache.
  const settings = `${homedir()}/.npmrc`;
  if (existsSync(settings)) await copyFile(settings, `${folder}/home/.npmrc`);
  const fresh = {
    HOME: `${folder}/home`,
    XDG_CACHE_HOME: `${folder}/cache`,
    DENO_DIR: `${folder}/deno`,
    BUN_INSTALL_CACHE_DIR: `${folder}/bun`,
    npm_config_cache: `${folder}/npm`,
    [NPM_FOLDER_VARIABLE]: `${folder}/project`,
  };
  for (const [name, value] of Object.entries(fresh)) {
    const before = process.env[name];
    process.env[name] = value;
    stack.defer(() => {
      if (before === undefined) delete process.env[name];
      else process.env[name] = before;
    });
  }
  return stack.move();
}
