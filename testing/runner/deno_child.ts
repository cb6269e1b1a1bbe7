/**
 * Runs Deno as a child that cannot outlive this process.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import process from "node:process";
import type { Readable } from "node:stream";
import { type Signal, spawnProcess } from "../runtime/processes.ts";
import { openLifeline } from "../servers/guarded_process.ts";
import { pause } from "../servers/wait.ts";

const END_BOUND_MS = 3_000;
/** The output is complete if none has come in so many steps. A stall of this process uses up one of them. */
const DRAIN_STEPS = 50;
const DRAIN_STEP_MS = 100;
/** A grandchild that outlives its test may print for as long as it likes. */
const MAX_DRAIN_STEPS = 600;

/** How a child ended. */
export interface ChildResult {
  readonly code: number;
  /** Its whole standard output. */
  readonly output: string;
  /** Its whole error output. */
  readonly errors: string;
}

/** The arguments of Deno, and where to run it. */
export interface ChildOptions {
  readonly args: readonly string[];
  readonly cwd: string;
  /** Ends the child when it aborts; its reason is the name of the signal to send. */
  readonly signal: AbortSignal;
  /** Environment variables besides those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Gets each part of both outputs at once. */
  readonly onOutput?: ((part: Buffer) => Promise<void>) | undefined;
}

/** Runs Deno with these arguments. */
export async function runDeno(
  { args, cwd, signal, env, onOutput }: ChildOptions,
): Promise<ChildResult> {
  await using lifeline = openLifeline();
  const child = spawnProcess([process.execPath, ...args], {
    cwd,
    env: { ...env, ...process.stdout.isTTY ? {} : { NO_COLOR: "1" } },
    stdout: "pipe",
    stderr: "pipe",
  });
  await lifeline.guard(child.pid);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const end = () => {
    child.kill(signal.reason as Signal);
    timer = setTimeout(() => child.kill("SIGKILL"), END_BOUND_MS);
  };
  if (signal.aborted) end();
  else signal.addEventListener("abort", end);
  const [output, errors]: [Buffer[], Buffer[]] = [[], []];
  let quiet = 0;
  const isCollected = new AbortController();
  const onPart = async (part: Buffer) => {
    quiet = 0;
    await onOutput?.(part);
  };
  const drained = async () => {
    await child.ended;
    // No condition: a grandchild that outlives its test would keep the outputs open for as long as it likes.
    for (let steps = 0; steps < MAX_DRAIN_STEPS && quiet++ < DRAIN_STEPS; steps++) {
      if (isCollected.signal.aborted) return;
      await pause(DRAIN_STEP_MS, isCollected.signal);
    }
  };
  const collected = Promise.all([
    collect(child.stdout!, output, onPart),
    collect(child.stderr!, errors, onPart),
  ]);
  await Promise.race([collected, drained()]);
  isCollected.abort();
  const { code } = await child.ended;
  signal.removeEventListener("abort", end);
  clearTimeout(timer);
  await lifeline.forget();
  return { code, output: textOf(output), errors: textOf(errors) };
}

async function collect(
  stream: Readable,
  chunks: Buffer[],
  onPart: (part: Buffer) => Promise<void>,
): Promise<void> {
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    await onPart(chunk);
  }
}

function textOf(chunks: readonly Buffer[]): string {
  return Buffer.concat(chunks).toString();
}
