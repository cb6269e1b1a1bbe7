/**
 * The channel between the demo and a worker process: lines of JSON on the worker's standard input and
 * output.
 *
 * @module
 */
import type { Message, Say, Task } from "./job.ts";

/** A worker's side. */
export interface Channel extends AsyncDisposable {
  readonly task: Task;
  readonly say: Say;
  /** Reports that the worker is ready, and waits until all workers are. */
  start(): Promise<void>;
}

/** A line from a worker to the demo. */
export type Line = { readonly event: "ready" } | { readonly event: "done" } | Message;

/** Opens the worker's side. The worker exits when the demo ends. */
export async function openChannel(): Promise<Channel> {
  const input = linesOf(Deno.stdin.readable);
  const say = (line: Line) => {
    const bytes = new TextEncoder().encode(`${JSON.stringify(line)}\n`);
    for (let sent = 0; sent < bytes.length;) sent += Deno.stdout.writeSync(bytes.subarray(sent));
  };
  const first = await input.next();
  if (first.done) {
    throw new Error("Cannot work without a task: run demo.ts, which starts the workers");
  }
  let end: Promise<void> | undefined;
  let isDone = false;
  return {
    task: JSON.parse(first.value) as Task,
    say,
    async start() {
      say({ event: "ready" });
      await input.next();
      end = input.next().then(() => isDone ? undefined : Deno.exit(1));
    },
    async [Symbol.asyncDispose]() {
      isDone = true;
      say({ event: "done" });
      await end; // the demo ends our input
    },
  };
}

/** The lines of a stream. */
export async function* linesOf(stream: ReadableStream<Uint8Array<ArrayBuffer>>) {
  let rest = "";
  for await (const chunk of stream.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}
