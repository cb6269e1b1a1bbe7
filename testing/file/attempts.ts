/**
 * Calls of a `FileLock` in processes of their own: as another user, without permissions, or where the
 * file system is full.
 *
 * @module
 */
import process from "node:process";
import { fileURLToPath } from "node:url";
import { linesOf } from "../runtime/lines.ts";
import { spawnProcess } from "../runtime/processes.ts";
import { registerTest } from "../runtime/tests.ts";
import type { FileLockOptions } from "../../file/mod.ts";
import type { Runtime } from "./file_runtimes.ts";

/** The user id of `nobody`. */
export const NOBODY = 65_534;

/** Registers a test that starts processes as another user, or mounts file systems. */
export function asRoot(name: string, fn: () => Promise<void>): void {
  const isRoot = process.platform === "linux" && process.getuid?.() === 0;
  const title = isRoot ? name : `${name} (skipped: this needs root on Linux)`;
  registerTest(title, fn, { isSkipped: !isRoot });
}

/** One call. */
export interface Attempt {
  readonly options: FileLockOptions;
  readonly call: "acquire" | "tryAcquire" | "query";
  readonly name: string;
  /** A global object that the process lacks. */
  readonly without?: "Deno";
  /** How many other files the process opens first; none by default. */
  readonly openFiles: number;
}

/** How the process runs. */
export interface AttemptProcess {
  readonly env?: Readonly<Record<string, string>>;
  /** A command and its arguments that start the process, for instance `setpriv`. */
  readonly through?: readonly string[];
  /** Its permissions in Deno; all by default. */
  readonly permissions?: readonly string[];
  /** The runtime; this Deno by default. */
  readonly runtime?: Runtime;
}

/** The result of a call. */
export interface Outcome {
  /** `"granted"`, `"null"`, the holders that `query()` reports, or the name of the error. */
  readonly result: string;
  readonly code?: string;
  readonly message?: string;
  /** When the call rejected, in ms. */
  readonly afterMs?: number;
  /** The files that are in the directory after that. */
  readonly files?: readonly string[];
}

/** The command that starts another one as `nobody`. */
export const asNobody: readonly string[] = [
  ...["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"],
];

/** Makes a call in a process of its own. Resolves when the process has ended. */
export async function attempt(
  { options, call = "tryAcquire", name = "n", openFiles = 0, ...rest }:
    & Partial<Attempt>
    & Pick<Attempt, "options">,
  { env = {}, through = [], permissions, runtime }: AttemptProcess = {},
): Promise<Outcome> {
  const script = new URL("./attempt.ts", import.meta.url);
  const command = [...through, ...runtime?.commandOf(script) ?? denoCommand(script, permissions)];
  const argument = JSON.stringify({ options, call, name, openFiles, ...rest });
  const child = spawnProcess([...command, argument], {
    ...{ env: { ...runtime?.env, ...env }, stdout: "pipe", stderr: "inherit" },
  });
  const lines = linesOf(child.stdout!);
  const line = await lines.next();
  await child.ended;
  await lines.cancel();
  if (line === null) throw new Error("The process ended before it printed a line");
  return JSON.parse(line) as Outcome;
}

function denoCommand(script: URL, permissions: readonly string[] = ["-A"]): string[] {
  const config = fileURLToPath(new URL("../../deno.json", import.meta.url));
  // Without such a flag Deno grants all permissions to a copy of itself that it starts.
  const run = [
    "run",
    "--deny-net",
    "--no-prompt",
    "--no-check",
    "--config",
    config,
    ...permissions,
    fileURLToPath(script),
  ];
  return [process.execPath, ...run];
}
