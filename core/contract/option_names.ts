/**
 * Refuses options that do not exist: a misspelt or foreign option must not be ignored. The values of
 * options are checked in `call_options.ts` and by the strategies.
 *
 * @module
 */
import { describeType } from "./validate.ts";

const WAIT = "to bound a wait, pass 'waitMs' to acquire() or tryAcquire()";
const RETRY = `a call waits in a queue and does not retry; ${WAIT}`;
const TRY = "tryAcquire() does not wait";
const TTL = "the lifetime of a lease is 'ttlMs' on Redis and 'sessionTimeoutMs' on ZooKeeper";
const RENEWAL = "leases are renewed in time unless 'autoRenew' is false";
const OWNER = "an id that the caller chooses is 'ownerId', a name to show is 'label'";
const DRIFT = "the allowance for drift is fixed";

/** The options of other libraries, and what to use here. */
const FOREIGN: Readonly<Record<string, string>> = {
  timeout: WAIT,
  timeoutMs: WAIT,
  acquireTimeout: WAIT,
  acquireTimeoutMs: WAIT,
  blockingTimeout: WAIT,
  blocking_timeout: WAIT,
  wait: WAIT,
  maxWait: WAIT,
  acquireAttemptsLimit: RETRY,
  pollInterval: RETRY,
  retries: RETRY,
  retry: RETRY,
  retryAttempts: RETRY,
  retryCount: RETRY,
  retryDelay: RETRY,
  retryInterval: RETRY,
  retryJitter: RETRY,
  retryWait: RETRY,
  sleep: RETRY,
  blocking: TRY,
  duration: TTL,
  expire: TTL,
  expires: TTL,
  leaseTime: TTL,
  lease_time: TTL,
  lockTimeout: TTL,
  lock_timeout: TTL,
  stale: TTL,
  ttl: TTL,
  automaticExtensionThreshold: RENEWAL,
  autoExtend: RENEWAL,
  refresh: RENEWAL,
  refreshInterval: RENEWAL,
  renewInterval: RENEWAL,
  update: RENEWAL,
  identifier: OWNER,
  owner: OWNER,
  value: OWNER,
  driftFactor: DRIFT,
  clockDriftFactor: DRIFT,
  ifAvailable: "only request() has it; tryAcquire() does not wait",
  steal: "only request() has it",
};

/** The names of some options: `{ waitMs: true }`. */
export type OptionNames = Readonly<Record<string, true>>;

/**
 * Checks that options are an object without unknown names. An unknown option whose value is `undefined`
 * counts as left out.
 *
 * @param where What takes the options, for the error message: `"acquire()"`.
 * @throws {TypeError} If they are not an object, or if one is unknown.
 */
export function checkNames(where: string, options: object, known: OptionNames): void {
  if (typeof options !== "object" || options === null) {
    throw new TypeError(
      `Cannot use the options: they must be an object, but they are ${describeType(options)}`,
    );
  }
  for (const name in options) {
    if (known[name] === true || options[name as keyof typeof options] === undefined) continue;
    throw new TypeError(
      `Cannot use '${name}': ${where} has no such option; ${hintFor(name, known)}`,
    );
  }
}

/** Copies the options that are known, for `request()`, which ignores the others. */
export function knownOf<T extends object>(options: T, known: OptionNames): T {
  const copy: Partial<T> = {};
  for (const name in options) {
    if (known[name] === true) copy[name] = options[name];
  }
  return copy as T;
}

function hintFor(name: string, known: OptionNames): string {
  return Object.hasOwn(FOREIGN, name) ? FOREIGN[name]! : `it has ${Object.keys(known).join(", ")}`;
}
