/**
 * Starts processes that exchange lines with a test over their standard input and output.
 *
 * @module
 */
import { linesOf } from "../runtime/lines.ts";
import { scriptCommand, type Signal, spawnProcess } from "../runtime/processes.ts";

export { linesOf };

/** A process that exchanges lines with the test. Disposal kills it. */
export interface ChildProcess extends AsyncDisposable {
  readonly pid: number;
  /** The next line that it prints; null after it has ended. */
  line(): Promise<string | null>;
  /** Writes a line to its input. */
  send(line: string): Promise<void>;
  /** Sends a signal; does nothing after the process has ended. */
  kill(signal: Signal): void;
  /** Closes its input and waits for its exit code. */
  end(): Promise<number>;
  /** Resolves with its exit code, however it ends. */
  readonly ended: Promise<number>;
}

/** Starts a script with one argument, sent as JSON, and additional environment variables. */
export function startChild(
  script: URL,
  argument: unknown,
  env: Readonly<Record<string, string>> = {},
  commandOf: (script: URL) => readonly string[] = scriptCommand,
): ChildProcess {
  const child = spawnProcess([...commandOf(script), JSON.stringify(argument)], {
    env,
    hasInput: true,
    stdout: "pipe",
    stderr: "inherit",
  });
  const lines = linesOf(child.stdout!);
  const ended = child.ended.then(({ code }) => code);
  return {
    pid: child.pid,
    line: lines.next,
    send: (line) => child.write(`${line}\n`),
    kill: child.kill,
    async end() {
      await child.endInput();
      return await ended;
    },
    ended,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await child.endInput();
      await ended;
      await lines.cancel();
    },
  };
}

/** A process that prints one report per line, as JSON. */
export interface Reporter<T>
  extends Pick<ChildProcess, "pid" | "send" | "kill" | "ended">, AsyncDisposable {
  /** Its reports so far. */
  readonly reports: readonly T[];
  /** Closes its input; resolves with its exit code after the last report was read. */
  finish(): Promise<number>;
}

/** Starts a script that reports. */
export function startReporter<T>(
  script: URL,
  argument: unknown,
  env?: Readonly<Record<string, string>>,
  commandOf?: (script: URL) => readonly string[],
): Reporter<T> {
  const child = startChild(script, argument, env, commandOf);
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
