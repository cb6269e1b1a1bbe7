/**
 * Counts what a Redis server executes, as its MONITOR command reports it.
 *
 * @module
 */
import { connectResp } from "./servers.ts";
import type { OperationCost } from "./jobs.ts";

/** The server must execute nothing for so long in ms before an operation begins, and after it. */
const QUIET_MS = 30;
/** The monitor sends this to see whether all earlier lines have arrived; it is not counted. */
const MARK = "ECHO";

/** A command that the server executed. */
interface Executed {
  readonly isFromScript: boolean;
  readonly name: string;
  readonly args: readonly string[];
}

/** Watches a server that does nothing else. */
export interface Monitor extends AsyncDisposable {
  /** Runs an operation alone, and counts what the server executes until it is quiet again. */
  cost(operation: string, run: () => Promise<unknown>): Promise<OperationCost>;
}

/** Starts to watch a server. */
export async function openMonitor(url: string): Promise<Monitor> {
  const observer = await connectResp(url);
  const source = await connectResp(url);
  await source.command("MONITOR");
  const seen: Executed[] = [];
  let onMark = () => {};
  const reading = (async () => {
    for (;;) {
      const executed = parseLine(String(await source.next()));
      if (executed.name === MARK) onMark();
      else seen.push(executed);
    }
  })().catch(() => {}); // the connection is closed

  const caughtUp = async () => {
    const marked = new Promise<void>((resolve) => onMark = resolve);
    await observer.command(MARK, "mark");
    await marked;
  };
  const quiet = async () => {
    let count: number;
    do {
      count = seen.length;
      await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
      await caughtUp();
    } while (seen.length > count);
  };
  return {
    async cost(operation, run) {
      await quiet();
      seen.length = 0;
      await run();
      await quiet();
      return costOf(operation, seen);
    },
    async [Symbol.asyncDispose]() {
      observer[Symbol.dispose]();
      source[Symbol.dispose]();
      await reading;
    },
  };
}

/** Reads a line such as `1700000000.123456 [0 lua] "GET" "lock:n"`. */
function parseLine(line: string): Executed {
  const address = /^\S+ \[\d+ ([^\]]*)\]/.exec(line);
  const words = Array.from(line.matchAll(/"((?:[^"\\]|\\.)*)"/g), (match) => match[1]!);
  const [name, ...args] = words;
  if (address === null || name === undefined) throw new Error(`Unexpected monitor line: ${line}`);
  return { isFromScript: address[1] === "lua", name: name.toUpperCase(), args };
}

function costOf(operation: string, executed: readonly Executed[]): OperationCost {
  const sent = executed.filter(({ isFromScript }) => !isFromScript);
  const scripts = sent.filter(({ name }) => /^(EVAL|EVALSHA)(_RO)?$/.test(name));
  const keys = sum(scripts.map(({ args }) => Number(args[1])));
  const args = sum(scripts.map(({ args }) => args.length - 2)) - keys;
  const calls = executed.filter(({ isFromScript }) => isFromScript).map(({ name }) => name);
  return { operation, commands: sent.length, keys, args, calls };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
