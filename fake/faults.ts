import { LockSetupError, LockUnavailableError } from "../core/contract/errors.ts";
import {
  badValue,
  count,
  describe,
  type OptionTable,
  readTable,
  text,
} from "../core/contract/options.ts";
import type { Clock } from "../core/time/clock.ts";

/**
 * A request to the service:
 * - `"acquire"`: for the lock, by `acquire()`, `tryAcquire()` or `request()`;
 * - `"renew"`: a renewal of a lease;
 * - `"release"`: a release, also the clean-up after a loss;
 * - `"query"`: by `query()`.
 */
export type FakeRequest = "acquire" | "renew" | "release" | "query";

/** Options of a fault. */
export interface FakeFaultOptions {
  /**
   * The name of the only lock that has the fault.
   *
   * @default all locks
   */
  name?: string | undefined;
  /**
   * The only requests that have the fault.
   *
   * @default all requests
   */
  requests?: readonly FakeRequest[] | undefined;
  /**
   * How many requests have the fault, which ends then.
   *
   * @default no limit
   */
  times?: number | undefined;
  /**
   * Why, for the message of the errors.
   *
   * @default "a test has made it fail"
   */
  reason?: string | undefined;
}

/** A fault that a test has started. It lasts until its end, or that of the fake lock. */
export interface FakeFault extends Disposable {
  /** Ends the fault. Answers that it delays arrive now. */
  end(): void;
}

const REQUESTS: readonly FakeRequest[] = ["acquire", "renew", "release", "query"];

const FAULT_OPTIONS = {
  name: text({ min: 1 }),
  requests: { default: undefined, check: checkRequests },
  times: count(),
  reason: text({ min: 1 }),
} satisfies OptionTable<FakeFaultOptions>;

function checkRequests(what: string, value: unknown): void {
  if (Array.isArray(value) && value.every((request) => REQUESTS.includes(request))) return;
  const is = Array.isArray(value) ? JSON.stringify(value) : describe(value);
  throw new TypeError(badValue(what, `a list of ${REQUESTS.join(", ")}`, is));
}

class Fault implements FakeFault {
  /** What it does to a request: fails it as in an outage, or refuses it, or delays it for so many ms. */
  readonly effect: "outage" | "refusal" | number;
  readonly reason: string;
  /** The requests that are delayed now: lets them go on. */
  readonly delayed = new Set<() => void>();
  readonly #name: string | undefined;
  readonly #requests: readonly FakeRequest[] | undefined;
  readonly #faults: Set<Fault>;
  #left: number;

  constructor(faults: Set<Fault>, effect: Fault["effect"], options: FakeFaultOptions) {
    const { name, requests, times, reason } = readTable("a fault", options, FAULT_OPTIONS);
    this.effect = effect;
    this.reason = reason ?? "a test has made it fail";
    this.#name = name;
    this.#requests = requests;
    this.#left = times ?? Infinity;
    this.#faults = faults;
    faults.add(this);
  }

  /** Whether a request has the fault, which then counts. */
  strikes(request: FakeRequest, name: string): boolean {
    if (this.#left === 0 || (this.#name ?? name) !== name) return false;
    if (this.#requests?.includes(request) === false) return false;
    this.#left--;
    return true;
  }

  end(): void {
    this.#left = 0;
    this.#faults.delete(this);
    for (const goOn of [...this.delayed]) goOn();
  }

  [Symbol.dispose](): void {
    this.end();
  }
}

/** The faults of one fake lock, and its counts. */
export class Faults {
  readonly #clock: Clock;
  readonly #faults = new Set<Fault>();
  readonly #counts = new Map<string, Record<FakeRequest, number>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  start(effect: Fault["effect"], options: FakeFaultOptions): Fault {
    return new Fault(this.#faults, effect, options);
  }

  endAll(): void {
    for (const fault of [...this.#faults]) fault.end();
  }

  count(request: FakeRequest, name: string): void {
    const counts = this.#counts.get(name) ?? noCounts();
    counts[request]++;
    this.#counts.set(name, counts);
  }

  /** The counts of one lock, or of all. */
  counts(name?: string): Readonly<Record<FakeRequest, number>> {
    if (name !== undefined) return { ...noCounts(), ...this.#counts.get(name) };
    const sum = noCounts();
    for (const counts of this.#counts.values()) {
      for (const request of REQUESTS) sum[request] += counts[request];
    }
    return sum;
  }

  /** Waits until a request is to be executed. Rejects if it fails, if the signal aborts, or after `patienceMs`. */
  async pass(
    request: FakeRequest,
    name: string,
    patienceMs: number = Infinity,
    signal?: AbortSignal,
  ): Promise<void> {
    for (const fault of [...this.#faults]) {
      if (!fault.strikes(request, name)) continue;
      const { effect, reason } = fault;
      if (typeof effect === "string") throw failure(effect, name, reason);
      const hasEnded = await this.#delay(fault, Math.min(effect, patienceMs), signal);
      signal?.throwIfAborted();
      if (effect <= patienceMs || hasEnded) continue;
      throw failure("outage", name, `it has not answered in time for ${patienceMs} ms`);
    }
  }

  /** Waits; resolves early, with true, if the fault ends or the signal aborts. */
  #delay(fault: Fault, delayMs: number, signal?: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const end = (hasEnded: boolean) => {
        cancel();
        fault.delayed.delete(goOn);
        signal?.removeEventListener("abort", goOn);
        resolve(hasEnded);
      };
      const goOn = () => end(true);
      const cancel = this.#clock.schedule(() => end(false), delayMs);
      fault.delayed.add(goOn);
      signal?.addEventListener("abort", goOn);
    });
  }
}

function noCounts(): Record<FakeRequest, number> {
  return { acquire: 0, renew: 0, release: 0, query: 0 };
}

/** The error of a request, in the words of real strategies. */
export function failure(
  kind: "outage" | "refusal",
  name: string,
  reason: string,
): LockUnavailableError | LockSetupError {
  const [ErrorClass, verb] = kind === "outage"
    ? [LockUnavailableError, "reach"]
    : [LockSetupError, "use"];
  const message = `Cannot ${verb} the fake service for lock ${JSON.stringify(name)}: ${reason}`;
  return new ErrorClass(message, name, { cause: new Error(reason) });
}
