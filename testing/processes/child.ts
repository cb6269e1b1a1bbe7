/**
 * Processes that talk with a test in lines.
 *
 * @module
 */
import { linesOf } from "../runtime/lines.ts";
import { scriptCommand, type Signal, spawnProcess } from "../runtime/processes.ts";

export { linesOf };

/** A process that was started. */
export interface ChildProcess extends AsyncDisposable {
  readonly pid: number;
  /** The next line that it prints; null when it has ended. */
  line(): Promise<string | null>;
  /** Writes a line to its input. */
  send(line: string): Promise<void>;
  /** Sends a signal; does nothing when the process has ended. */
  kill(signal: Signal): void;
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
  const child = spawnProcess([...scriptCommand(script), JSON.stringify(argument)], {
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
