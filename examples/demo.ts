/**
 * Shows the effect of a lock: workers update one account, with the lock and without it.
 *
 * @module
 */

// deno-lint-ignore-file no-console -- this is a command

import { type BackendName, type DemoOptions, readArguments, USAGE } from "./demo/arguments.ts";
import { check, type Run } from "./demo/checks.ts";
import { openInterruption, unlessAborted } from "./demo/interruption.ts";
import { drawRun } from "./demo/picture.ts";
import type { Screen } from "./demo/progress.ts";
import { report } from "./demo/report.ts";
import { runLocked, runUnlocked } from "./demo/runs.ts";
import { counted } from "./demo/words.ts";

/** Not a literal in `import()`: a run that needs no servers downloads no packages. */
const SERVER_MODULE: string = "./demo/server.ts";

const SCREEN: Screen = {
  isTerminal: Deno.stdout.isTerminal(),
  write: (text) => void Deno.stdout.writeSync(new TextEncoder().encode(text)),
};

if (import.meta.main) Deno.exit(await main());

async function main(): Promise<number> {
  let options: DemoOptions | null;
  try {
    options = readArguments(Deno.args);
  } catch (error) {
    console.error(`${(error as Error).message}\nRun it with --help to see the options`);
    return 2;
  }
  if (options === null) {
    console.log(USAGE);
    return 0;
  }
  using interruption = openInterruption();
  try {
    return await show(options, interruption.signal) ? 0 : 1;
  } catch (error) {
    if (interruption.signal.aborted) return interruption.exitCode;
    console.error((error as Error).message);
    return 1;
  }
}

/** Runs the demo in a temporary directory; resolves with whether all checks passed. */
async function show(options: DemoOptions, signal: AbortSignal): Promise<boolean> {
  await using resources = new AsyncDisposableStack();
  const dir = await Deno.makeTempDir({ prefix: "holdfast-demo-" });
  resources.defer(() => Deno.remove(dir, { recursive: true }));
  console.log(intention(options));
  const lockUrl = await openPlace(options, dir, resources, signal);
  const setting = { options, dir, lockUrl, screen: SCREEN, signal };
  const run = await runLocked(setting);
  const contrast = await runUnlocked(setting);
  const findings = check(run, contrast);
  for (const line of report(options.backend, { run, contrast, findings })) console.log(line);
  if (options.svg !== null) await writePicture(options.svg, options.backend, run);
  return findings.every(({ isGood }) => isGood);
}

/** Draws the run into a file. */
async function writePicture(file: string, backend: BackendName, run: Run): Promise<void> {
  const title = `${counted(run.workers, "worker")} share one ${backend} lock`;
  await Deno.writeTextFile(file, drawRun(run, title));
  console.log(`\nThe picture is in ${file}`);
}

function intention({ backend, workers, rounds }: DemoOptions): string {
  const run = `${backend} lock, ${counted(workers, "worker")} × ${counted(rounds, "round")}`;
  const workersAre = backend === "memory"
    ? "Memory locks live in one process, so the workers are tasks of this process"
    : "Each worker is a process";
  return `Holdfast demo: ${run}\n${workersAre}`;
}

/** The URL of the locks; `null` for memory locks, which exist only within their process. */
async function openPlace(
  { backend, url, isInstallRefused }: DemoOptions,
  dir: string,
  resources: AsyncDisposableStack,
  signal: AbortSignal,
): Promise<string | null> {
  if (backend === "memory") return null;
  if (backend === "file") return `file://${dir}/locks`;
  // An aborted start leaves nothing behind: a server that we start ends with this process.
  const { openServer }: typeof import("./demo/server.ts") = await import(SERVER_MODULE);
  const opening = openServer({ kind: backend, url, isInstallRefused }, (line) => console.log(line));
  return resources.use(await unlessAborted(opening, signal)).lockUrl;
}
