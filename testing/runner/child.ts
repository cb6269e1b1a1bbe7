/**
 * Runs `deno test` as a child that cannot outlive this process.
 *
 * @module
 */

import { openLifeline } from "../servers/guarded_process.ts";
import { pause } from "../servers/wait.ts";

const END_BOUND_MS = 3_000;
const DRAIN_BOUND_MS = 5_000;

/** How `deno test` ended. */
export interface DenoTestResult {
  readonly code: number;
  /** All that it printed on its standard output, which was passed on as well. */
  readonly output: string;
}

/** What to run, where. */
export interface DenoTestOptions {
  readonly args: readonly string[];
  readonly cwd: string;
  /** Ends the tests, by a signal that its reason names. */
  readonly signal: AbortSignal;
}

/** Runs `deno test` with these arguments and passes on what it prints. */
export async function runDenoTest({ args, cwd, signal }: DenoTestOptions): Promise<DenoTestResult> {
  await using lifeline = openLifeline();
  const child = new Deno.Command(Deno.execPath(), {
    // Tests wait more than they work: three files at a time keep two cores busy.
    args: ["test", "--parallel", ...args],
    cwd,
    env: { DENO_JOBS: "3", ...Deno.stdout.isTerminal() ? {} : { NO_COLOR: "1" } },
    stdin: "null",
    stdout: "piped",
  }).spawn();
  await lifeline.guard(child.pid);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const end = () => {
    child.kill(signal.reason as Deno.Signal);
    timer = setTimeout(() => child.kill("SIGKILL"), END_BOUND_MS);
  };
  if (signal.aborted) end();
  else signal.addEventListener("abort", end);
  const chunks: Uint8Array[] = [];
  // A test's own child that lives on would keep the output open.
  const drained = child.status.then(() => pause(DRAIN_BOUND_MS));
  await Promise.race([passOn(child.stdout, chunks), drained]);
  const { code } = await child.status;
  signal.removeEventListener("abort", end);
  clearTimeout(timer);
  await lifeline.forget();
  return { code, output: await new Blob(chunks as BlobPart[]).text() };
}

async function passOn(stream: ReadableStream<Uint8Array>, chunks: Uint8Array[]): Promise<void> {
  for await (const chunk of stream) {
    chunks.push(chunk);
    for (let sent = 0; sent < chunk.length;) sent += await Deno.stdout.write(chunk.subarray(sent));
  }
}
