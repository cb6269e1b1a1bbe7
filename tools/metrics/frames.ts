/**
 * Counts the frames of one command: how many of our frames, awaited ones included, are on the stack from
 * the user's call to the moment when a command leaves our code for good. That is when bytes are written to
 * a socket of `node:net` (also by a client package, whose own frames do not count), or when Deno's file
 * system is called. A frame that no stack trace shows does not count: one that has returned, or that waits
 * for a promise which it did not await directly.
 *
 * @module
 */
import { Socket } from "node:net";
import { framesOf } from "../../bench/versions/call_paths.ts";
import type { Frame } from "../../bench/versions/jobs.ts";
import { publishedPaths, ROOT } from "./published.ts";

/** More frames than any call has. */
const STACK_LIMIT = 100;

type Method = (...args: unknown[]) => unknown;
type Methods = Record<string, Method>;

/** The frames of each command of the work, the user's call first. Commands that are not ours are left out. */
export async function framesOfCommands(work: () => Promise<void>): Promise<Frame[][]> {
  const published = publishedPaths();
  const found: Frame[][] = [];
  const look = () => {
    const frames = framesOf(new Error().stack ?? "", ROOT)
      .filter(({ file }) => published.some((path) => file.startsWith(path)));
    if (frames.length > 0) found.push(frames);
  };
  using stack = new DisposableStack();
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = STACK_LIMIT;
  stack.defer(() => Error.stackTraceLimit = limit);
  for (const [owner, name] of commands()) {
    const original = owner[name]!;
    owner[name] = function (this: unknown, ...args: unknown[]) {
      look();
      return original.apply(this, args);
    };
    stack.defer(() => owner[name] = original);
  }
  await work();
  return found;
}

/** The functions by which a command leaves, each with its owner. */
function commands(): [Methods, string][] {
  const sockets = Socket.prototype as unknown as Methods;
  const files = [Deno, Deno.FsFile.prototype] as unknown as Methods[];
  return [
    [sockets, "write"],
    ...files.flatMap((owner) =>
      Object.getOwnPropertyNames(owner).filter((name) => name.endsWith("Sync"))
        .map((name): [Methods, string] => [owner, name])
    ),
  ];
}
