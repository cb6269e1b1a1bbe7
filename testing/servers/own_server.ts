/**
 * Starts and controls throw-away servers: local processes or Docker containers on free ports.
 *
 * @module
 */

import { readFile } from "node:fs/promises";
import { makeTempDirectory } from "../runtime/temporary_files.ts";
import { isStopped, type Signal } from "../runtime/processes.ts";
import { runCommand } from "./command.ts";
import type { OwnSource } from "./find.ts";
import { type GuardedProcess, startGuarded } from "./guarded_process.ts";
import { freePort } from "./ports.ts";
import { waitUntil } from "./wait.ts";
import { CONDITION_BOUND_MS } from "../time.ts";

const START_ATTEMPTS = 4;

/** The parts that differ between kinds of servers. */
export interface OwnServerSpec {
  readonly title: string;
  readonly source: OwnSource;
  /** Where the temporary directory is made; in the system's own one by default. */
  readonly baseDirectory?: string;
  /** Additional environment variables of a local program. */
  readonly env?: Readonly<Record<string, string>>;
  /** The local program's arguments; may write a configuration into the directory. */
  localArguments(place: ServerPlace): string[] | Promise<string[]>;
  /** Options of `docker run`, such as `-e`. */
  readonly containerOptions: readonly string[];
  /** The arguments after the name of the image. */
  readonly containerArguments: readonly string[];
  readonly containerPort: number;
  /** Chooses the port; any free one by default. */
  choosePort?(): number;
  /**
   * True if this server serves, rather than another one that took its port. Must resolve within a
   * bounded time. The process id is undefined for a container.
   */
  isServing(place: ServerPlace, pid: number | undefined): Promise<boolean>;
}

/** Where one server listens and keeps its files. */
export interface ServerPlace {
  readonly port: number;
  readonly directory: string;
}

/** A server that belongs to one test, which may kill, pause and restart it. */
export interface OwnServer extends AsyncDisposable {
  readonly hostname: string;
  readonly port: number;
  /** The process id of the server; for a container, that of the Docker client. */
  readonly pid: number;
  /** Sends a signal, SIGKILL by default, and resolves when the server has ended. */
  kill(signal?: Signal): Promise<void>;
  /** Stops the server's execution, and resolves when it has stopped; connections stay open. */
  pause(): Promise<void>;
  /** Undoes `pause()`. */
  resume(): Promise<void>;
  /** Kills the server if it runs, and starts it on the same port with the same files. */
  restart(): Promise<void>;
}

/** Starts a server and waits until it serves; tries again on another port if that fails. */
export async function startOwnServer(spec: OwnServerSpec): Promise<OwnServer> {
  for (let attempt = 1;; attempt++) {
    try {
      return await startOnce(spec);
    } catch (error) {
      if (attempt === START_ATTEMPTS) throw error;
    }
  }
}

async function startOnce(spec: OwnServerSpec): Promise<OwnServer> {
  const directory = await makeTempDirectory(spec.baseDirectory);
  const place = { port: (spec.choosePort ?? freePort)(), directory };
  const logFile = `${directory}/output.log`;
  const launch = await plan(spec, place);
  const process = await startGuarded({ ...launch, remove: directory, logFile });
  const ready = () =>
    waitUntil(`${spec.title} serves`, async () => {
      if (!process.isRunning) throw await startError(spec.title, logFile);
      return await spec.isServing(place, launch.container === undefined ? process.pid : undefined);
    });
  try {
    await ready();
  } catch (error) {
    await process[Symbol.asyncDispose]();
    throw error;
  }
  return control(place.port, process, launch, ready);
}

interface LaunchPlan {
  readonly command: readonly string[];
  /** Replaces the command when the server is started again. */
  readonly again?: readonly string[];
  readonly stop?: readonly string[];
  readonly container?: string;
}

async function plan(spec: OwnServerSpec, place: ServerPlace): Promise<LaunchPlan> {
  const { source } = spec;
  if (source.kind === "local") {
    const variables = Object.entries(spec.env ?? {}).map(([name, value]) => `${name}=${value}`);
    const command = [...source.command, ...await spec.localArguments(place)];
    return { command: variables.length > 0 ? ["env", ...variables, ...command] : command };
  }
  const container = `holdfast-${crypto.randomUUID()}`;
  const publish = `127.0.0.1:${place.port}:${spec.containerPort}`;
  const run = ["docker", "run", "--name", container, "-p", publish, ...spec.containerOptions];
  return {
    container,
    command: [...run, source.image, ...spec.containerArguments],
    again: ["docker", "start", "-a", container],
    stop: ["docker", "rm", "-f", "-v", container],
  };
}

async function startError(title: string, logFile: string): Promise<Error> {
  const log = await readFile(logFile, "utf8").catch(() => "");
  return new Error(`${title} ended before it was ready. Its output: ${log.slice(-2_000)}`);
}

async function stopped(pid: number): Promise<void> {
  const state = ["ps", "-o", "stat=", "-p", String(pid)];
  await waitUntil("the server is stopped", async () => {
    return isStopped(pid) ?? (await runCommand(state, CONDITION_BOUND_MS)).output.startsWith("T");
  });
}

function control(
  port: number,
  process: GuardedProcess,
  { container, again }: LaunchPlan,
  ready: () => Promise<void>,
): OwnServer {
  const send = async (signal: Signal) => {
    if (container === undefined) return process.kill(signal);
    if (!process.isRunning) return;
    const command = ["docker", "kill", "--signal", signal, container];
    const { success, output } = await runCommand(command, CONDITION_BOUND_MS);
    if (!success) throw new Error(`Cannot send ${signal} to the container: ${output}`);
  };
  const kill = async (signal: Signal = "SIGKILL") => {
    await send(signal);
    await process.exited;
  };
  return {
    hostname: "127.0.0.1",
    port,
    get pid() {
      return process.pid;
    },
    kill,
    async pause() {
      await send("SIGSTOP");
      if (container === undefined) await stopped(process.pid);
    },
    resume: () => send("SIGCONT"),
    async restart() {
      await kill();
      await process.restart(again);
      await ready();
    },
    [Symbol.asyncDispose]: () => process[Symbol.asyncDispose](),
  };
}
