/**
 * Runs `deno test` as a child that cannot outlive this process.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import process from "node:process";
import type { Readable } from "node:stream";
import { type Signal, spawnProcess } from "../runtime/processes.ts";
import { openLifeline } from "../servers/guarded_process.ts";
import { pause } from "../servers/wait.ts";
import type { Progress } from "./progress.ts";

const END_BOUND_MS = 3_000;
const DRAIN_BOUND_MS = 5_000;

/** How `deno test` ended. */
export interface DenoTestResult {
  readonly code: number;
  /** Its whole standard output, which was also passed on to ours. */
  readonly output: string;
}

/** The command line of `deno test`, and where to run it. */
export interface DenoTestOptions {
  readonly args: readonly string[];
  readonly cwd: string;
  /** Ends the tests when it aborts; its reason is the name of the signal to send. */
  readonly signal: AbortSignal;
  /** Reads the output while the tests run. */
  readonly progress: Progress;
}

/** Runs `deno test` with these arguments and passes on its output. */
export async function runDenoTest(
  { args, cwd, signal, progress }: DenoTestOptions,
): Promise<DenoTestResult> {
  await using lifeline = openLifeline();
  // Tests mostly wait: running five files at a time keeps two cores busy.
  const child = spawnProcess([process.execPath, "test", "--parallel", ...args], {
    cwd,
    env: { DENO_JOBS: "5", ...process.stdout.isTTY ? {} : { NO_COLOR: "1" } },
    stdout: "pipe",
    stderr: "inherit",
  });
  await lifeline.guard(child.pid);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const end = () => {
    child.kill(signal.reason as Signal);
    timer = setTimeout(() => child.kill("SIGKILL"), END_BOUND_MS);
  };
  if (signal.aborted) end();
  else signal.addEventListener("abort", end);
  const chunks: Buffer[] = [];
  // A grandchild that outlives its test would keep the output open.
  const drained = child.ended.then(() => pause(DRAIN_BOUND_MS));
  await Promise.race([passOn(child.stdout!, chunks, progress), drained]);
  const { code } = await child.ended;
  signal.removeEventListener("abort", end);
  clearTimeout(timer);
  await lifeline.forget();
  return { code, output: Buffer.concat(chunks).toString() };
}

async function passOn(stream: Readable, chunks: Buffer[], progress: Progress): Promise<void> {
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    progress.add(chunk.toString());
    await new Promise<void>((resolve) => process.stdout.write(chunk, () => resolve()));
  }
}
