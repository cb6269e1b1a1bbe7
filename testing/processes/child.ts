/**
 * Deno processes that talk with a test by lines.
 *
 * @module
 */

/** A process that was started. */
export interface ChildProcess extends AsyncDisposable {
  readonly pid: number;
  /** The next line that it prints; null when it has ended. */
  line(): Promise<string | null>;
  /** Writes a line to its input. */
  send(line: string): Promise<void>;
  kill(signal: Deno.Signal): void;
  /** Ends its input and waits for its exit code. */
  end(): Promise<number>;
  /** Resolves with its exit code when it has ended, however that came. */
  readonly ended: Promise<number>;
}

/** Starts a script of the tests with one argument, in JSON, and more environment variables. */
export function startChild(
  script: URL,
  argument: unknown,
  env: Readonly<Record<string, string>> = {},
): ChildProcess {
  const config = new URL("../../deno.json", import.meta.url).pathname;
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "-A", "--no-check", "--config", config],
      ...[script.pathname, JSON.stringify(argument)],
    ],
    env,
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const lines = linesOf(child.stdout);
  const input = child.stdin.getWriter();
  let closing: Promise<void> | null = null;
  const endInput = () => closing ??= input.close().catch(() => {});
  return {
    pid: child.pid,
    line: lines.next,
    send: (line) => input.write(new TextEncoder().encode(`${line}\n`)),
    kill: (signal) => child.kill(signal),
    async end() {
      await endInput();
      return (await child.status).code;
    },
    ended: child.status.then(({ code }) => code),
    async [Symbol.asyncDispose]() {
      try {
        child.kill("SIGKILL");
      } catch {
        // It has ended by itself.
      }
      await endInput();
      await child.status;
      await lines.cancel();
    },
  };
}

/** A process of which each line is a report, in JSON. */
export interface Reporter<T>
  extends Pick<ChildProcess, "pid" | "send" | "kill" | "ended">, AsyncDisposable {
  /** What it has reported so far. */
  readonly reports: readonly T[];
  /** Ends its input; resolves with its exit code, and when all reports are there. */
  finish(): Promise<number>;
}

/** Starts a script that reports. */
export function startReporter<T>(
  script: URL,
  argument: unknown,
  env?: Readonly<Record<string, string>>,
): Reporter<T> {
  const child = startChild(script, argument, env);
  const { pid, line, send, kill, end, ended, [Symbol.asyncDispose]: dispose } = child;
  const reports: T[] = [];
  const reading = (async () => {
    for (let text; (text = await line()) !== null;) reports.push(JSON.parse(text));
  })();
  return {
    ...{ pid, reports, send, kill, ended },
    async finish() {
      const code = await end();
      await reading;
      return code;
    },
    async [Symbol.asyncDispose]() {
      await dispose();
      await reading;
    },
  };
}

/** Reads lines; null at the end. */
export interface Lines {
  next(): Promise<string | null>;
  cancel(): Promise<void>;
}

/** The lines of a stream of bytes, without their ends. What follows the last end is lost. */
export function linesOf(bytes: ReadableStream<Uint8Array<ArrayBuffer>>): Lines {
  const reader = bytes.pipeThrough(new TextDecoderStream()).getReader();
  let lines: string[] = [];
  let rest = "";
  return {
    async next() {
      while (lines.length === 0) {
        const { value, done } = await reader.read();
        if (done) return null;
        lines = (rest + value).split("\n");
        rest = lines.pop()!;
      }
      return lines.shift()!;
    },
    cancel: () => reader.cancel(),
  };
}
