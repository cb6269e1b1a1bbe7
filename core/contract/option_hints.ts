/**
 * What errors advise to use instead of an unknown option, or of a bare value in the place of options.
 *
 * @module
 */

const WAIT = "to bound a wait, pass 'waitMs' to the call or to the web part";
const RETRY = `a call waits in a queue and does not retry; ${WAIT}`;
const TRY = "tryAcquire() does not wait";
const TTL = "the lifetime of a lease is 'ttlMs' on Redis and 'sessionTimeoutMs' on ZooKeeper";
const RENEWAL = "leases are renewed in time unless 'autoRenew' is false";
const OWNER = "an id that the caller chooses is 'ownerId', a name to show is 'label'";
const LIMIT = "at most n holders at a time is 'limit'";
const DRIFT = "the allowance for drift is fixed";
export const SEVERAL_NAMES = "a call takes one name; several names: acquireAll()";

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
  concurrency: LIMIT,
  maxHolders: LIMIT,
  permits: LIMIT,
  driftFactor: DRIFT,
  clockDriftFactor: DRIFT,
  ifAvailable: "only request() has it; tryAcquire() does not wait",
  shared: 'it is mode: "shared"',
  steal: "only request() has it",
};

/** What a bare value in the place of options is meant as, by what it is and by an option that they have. */
const BARE: readonly (readonly [is: string, option: string, hint: string])[] = [
  ["a number", "waitMs", `the longest wait is { waitMs }; ${TTL}`],
  ["a number", "ttlMs", TTL],
  ["a function", "key", "pass it as { key }"],
  ["undefined", "key", "pass { key }, or the key alone"],
  ["a function", "onWait", "to run it under the lock, call request()"],
  ["a string", "onWait", SEVERAL_NAMES],
  ["an array", "onWait", SEVERAL_NAMES],
  ["a string", "dir", "pass it as { dir }"],
  ["a string", "rootPath", "the servers come first, then the options"],
  ["an AbortSignal", "signal", "pass it as { signal }"],
];

/** The end of the error for a bare value in the place of options. */
export function hintForBare(is: string, known: readonly string[]): string {
  const row = BARE.find(([each, option]) => each === is && known.includes(option));
  return row === undefined ? "" : `; ${row[2]}`;
}

/** The end of the error for an unknown option: a similar name, what to use instead, or all names. */
export function hintFor(name: string, known: readonly string[]): string {
  const similar = known.find((each) => isSimilar(each.toLowerCase(), name.toLowerCase()));
  if (similar !== undefined) return `did you mean '${similar}'?`;
  return Object.hasOwn(FOREIGN, name) ? FOREIGN[name]! : `it has ${known.join(", ")}`;
}

/** Whether one name becomes the other by one inserted, dropped, replaced or swapped letter, or a unit. */
function isSimilar(one: string, other: string): boolean {
  if (one === other || one === `${other}ms`) return true;
  const [short, long] = one.length <= other.length ? [one, other] : [other, one];
  if (short.length < 4) return false;
  let at = 0;
  while (at < short.length && short[at] === long[at]) at++;
  if (long.length > short.length) return short.slice(at) === long.slice(at + 1);
  const isSwapped = short[at] === long[at + 1] && short[at + 1] === long[at];
  return short.slice(at + 1) === long.slice(at + 1) ||
    (isSwapped && short.slice(at + 2) === long.slice(at + 2));
}
