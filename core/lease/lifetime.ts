import {
  callback,
  duration,
  label,
  type OptionTable,
  type ReadOptions,
} from "../contract/options.ts";
import { promiseTry } from "../contract/promise_try.ts";

/** Options that every strategy takes. */
export interface StrategyOptions {
  /**
   * The name of this instance, such as that of a service or a host. `query()` shows it for calls that have no `label`
   * of their own, and it is the readable part of owner ids. 1 to 100 characters, no control characters.
   */
  label?: string | undefined;
  /**
   * How long, in ms, disposal may take. Holders have half of it to stop; then the locks that are still held are
   * released, even if their holders' code still runs. With 0 the releases are sent, but no answer is awaited.
   *
   * @default {2000}
   */
  disposeTimeoutMs?: number | undefined;
  /**
   * Gets the warnings that no call can report.
   *
   * @default `console.warn()`
   */
  onWarning?: ((message: string) => void) | undefined;
}

export const STRATEGY_OPTIONS = {
  label: label(),
  disposeTimeoutMs: duration({ min: 0, otherwise: 2_000 }),
  // deno-lint-ignore no-console -- the user should see a warning
  onWarning: callback((message: string) => console.warn(message)),
} satisfies OptionTable<StrategyOptions>;

/** The label, the warnings and the disposal of one strategy instance. Disposal aborts the waits of all its calls. */
export class Lifetime {
  readonly label: string;
  readonly disposeTimeoutMs: number;
  readonly #onWarning: (message: string) => void;
  readonly #warned = new Set<string>();
  readonly #end = new AbortController();
  /** Aborts with an `AbortError` when disposal begins. */
  readonly ended: AbortSignal = this.#end.signal;
  #disposal: Promise<void> | null = null;

  constructor(
    { label, disposeTimeoutMs, onWarning }: ReadOptions<StrategyOptions, typeof STRATEGY_OPTIONS>,
  ) {
    this.label = label ?? "";
    this.disposeTimeoutMs = disposeTimeoutMs;
    this.#onWarning = onWarning;
  }

  /**
   * Gives a warning that no call can report, each text once. An error of the user's callback is ignored: it must change
   * neither the call nor background work that warns. Needs no `this`.
   */
  readonly warn = (message: string): void => {
    if (this.#warned.has(message)) return;
    this.#warned.add(message);
    promiseTry(() => this.#onWarning(message)).catch(() => {});
  };

  /** Throws an `InvalidStateError` if disposal has begun. */
  throwIfEnded(): void {
    if (!this.ended.aborted) return;
    const message = "Cannot use this lock manager: it was disposed; create a new one";
    throw new DOMException(message, "InvalidStateError");
  }

  /** Ends all waits, then calls `close`. Later calls wait for the same disposal. Never rejects. */
  end(close: () => Promise<void>): Promise<void> {
    if (this.#disposal !== null) return this.#disposal;
    const message = "Cannot finish the call: the lock manager was disposed";
    this.#end.abort(new DOMException(message, "AbortError"));
    // A disposal that rejects would hide the error of the block that it ends (invariant 6).
    return this.#disposal = promiseTry(close).catch(() => {});
  }
}

/** The calls and tasks that disposal waits for, such as a clean-up. Does none of that work itself. */
export class Background {
  #running = 0;
  #whenIdle: (() => void) | null = null;

  /** Resolves at the end of the task. Errors are ignored: a task must itself report what the user needs to know. */
  run(task: () => Promise<unknown>): Promise<void> {
    this.enter();
    return task().catch(() => {}).then(() => this.exit());
  }

  /** A call begins that may leave a task behind. {@linkcode Background.exit} must follow. */
  enter(): void {
    this.#running++;
  }

  exit(): void {
    if (--this.#running === 0) this.#whenIdle?.();
  }

  /** Resolves when no call and no task is running, also none that started after this was called. */
  async idle(): Promise<void> {
    while (this.#running > 0) await new Promise<void>((resolve) => this.#whenIdle = resolve);
  }
}
