/**
 * The process of one cycle, so that nothing else runs in it: prints what was measured as a line of JSON. Its
 * argument names the cycle and says how many to count.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- the line is the result
import { scriptArgument } from "../../testing/runtime/processes.ts";
import { type BytesJob, measureBytes } from "./bytes.ts";
import { countCycle, type CycleCount } from "./call_counter.ts";
import { CYCLES } from "./cycles.ts";
import { framesOfCommands } from "./frames.ts";

/** The argument of the process. */
export type CycleJob = { readonly cycle: string; readonly cycles: number } | {
  readonly bytes: BytesJob;
};

/** The counts of a cycle, and the frames of its commands. */
export interface CycleResult extends CycleCount {
  /** Those of its first command, which asks for the lock. */
  readonly first: readonly string[];
  readonly deepest: readonly string[];
}

const WARM_UP = 20;

async function measure(name: string, cycles: number): Promise<CycleResult> {
  await using stack = new AsyncDisposableStack();
  const cycle = await CYCLES[name]!.open(stack);
  const run = async (count: number) => {
    for (let i = 0; i < count; i++) await cycle();
  };
  await run(WARM_UP);
  const commands = (await framesOfCommands(cycle))
    .map((frames) => frames.map(({ name, file }) => `${file} ${name}`));
  const [first = []] = commands;
  const [deepest = []] = commands.toSorted((a, b) => b.length - a.length);
  return { ...await countCycle(run, cycles), first, deepest };
}

if (import.meta.main) {
  const job = scriptArgument<CycleJob>();
  const result = "bytes" in job
    ? await measureBytes(job.bytes)
    : await measure(job.cycle, job.cycles);
  console.log(JSON.stringify(result));
  Deno.exit(0); // a client package may still hold a timer
}
