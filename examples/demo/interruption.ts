/**
 * Handles Ctrl-C and other signals that end a command.
 *
 * @module
 */
const EXIT_CODES = Deno.build.os === "windows"
  ? { SIGINT: 130 } as const
  : { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/** Ctrl-C sends SIGINT to this process and to `deno task`, which passes it on at once. */
const SAME_KEYPRESS_MS = 500;

/** Listens for signals until it is disposed of. */
export interface Interruption extends Disposable {
  /** Aborts at the first signal. */
  readonly signal: AbortSignal;
  /** The exit code for that signal. */
  readonly exitCode: number;
}

/** Starts to listen. A signal that follows later ends the process at once. */
export function openInterruption(): Interruption {
  const controller = new AbortController();
  let exitCode = 0;
  let firstMs = 0;
  const listeners = Object.entries(EXIT_CODES).map(([name, code]) => {
    const listener = () => {
      const nowMs = performance.now();
      if (controller.signal.aborted) {
        if (nowMs - firstMs > SAME_KEYPRESS_MS) Deno.exit(code);
        return;
      }
      firstMs = nowMs;
      exitCode = code;
      controller.abort(new Error(`Ended by ${name}`));
    };
    return [name as Deno.Signal, listener] as const;
  });
  for (const [name, listener] of listeners) Deno.addSignalListener(name, listener);
  return {
    signal: controller.signal,
    get exitCode() {
      return exitCode;
    },
    [Symbol.dispose]() {
      for (const [name, listener] of listeners) Deno.removeSignalListener(name, listener);
    },
  };
}

/** Resolves like the promise, or rejects as soon as the signal aborts. */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const onAbort = () => aborted.reject(signal.reason);
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort);
  try {
    return await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
