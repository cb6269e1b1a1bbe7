/**
 * The options of the ZooKeeper strategy: their defaults and their checks. The connect string is parsed in
 * `transport/connect_string.ts`.
 *
 * @module
 */
import type { StrategyOptions } from "../core/lifetime.ts";
import { checkDuration } from "../core/validate.ts";
import { parseConnectString } from "./transport/connect_string.ts";
import type { TransportOptions, ZooKeeperAuth } from "./transport/transport.ts";
import { checkPath } from "./transport/znode_names.ts";

/** Options of {@linkcode ZooKeeperLock}. */
export interface ZooKeeperLockOptions extends StrategyOptions {
  /**
   * The path of the znode that all locks are below. It is created if it is missing. The znode of the
   * lock `orders:42` is `<rootPath>/orders:42`. The znodes of unused locks are deleted.
   *
   * @default {"/holdfast/locks"}
   */
  rootPath?: string;
  /**
   * How long in ms the servers keep the session, and so the locks, of a process that has stopped
   * answering. So long does a dead holder block the waiters. The servers raise or lower the value to 2
   * to 20 of their ticks: 4 to 40 seconds, unless they are configured otherwise. At least 100.
   *
   * @default {10000}
   */
  sessionTimeoutMs?: number;
  /**
   * Credentials. If set, only clients with the same credentials have access to the znodes that are
   * created here. So all processes that share these locks need the same credentials.
   */
  auth?: ZooKeeperAuth;
  /**
   * How long in ms an outage of ZooKeeper may last before a call rejects with a
   * `LockUnavailableError`.
   *
   * @default {5000}
   */
  unavailableAfterMs?: number;
  /**
   * How long in ms requests may stay without any answer before the client reconnects. The servers answer
   * in the order of the requests, so the time counts from the last answer. By default a quarter of the
   * session timeout, but at most half of `unavailableAfterMs`.
   */
  requestTimeoutMs?: number;
}

/** Default of {@linkcode ZooKeeperLockOptions.rootPath}. */
export const DEFAULT_ROOT_PATH = "/holdfast/locks";
/** Default of {@linkcode ZooKeeperLockOptions.sessionTimeoutMs}. */
export const DEFAULT_SESSION_TIMEOUT_MS = 10_000;
/** Default of {@linkcode ZooKeeperLockOptions.unavailableAfterMs}. */
export const DEFAULT_UNAVAILABLE_AFTER_MS = 5_000;

/** Minimum session timeout in ms. */
const MIN_SESSION_TIMEOUT_MS = 100;

/** The checked options of one strategy instance. */
export interface Settings extends TransportOptions {
  /** The root path, with the chroot before it. All znodes are below it. */
  readonly rootPath: string;
}

/**
 * Checks the arguments of the constructor and fills in the defaults.
 *
 * @param connectString The servers, and optionally a chroot.
 * @param options The options of the user.
 * @returns The settings.
 * @throws {TypeError} If an argument has a wrong type.
 * @throws {RangeError} If an argument is out of range.
 */
export function readSettings(connectString: string, options: ZooKeeperLockOptions): Settings {
  const {
    rootPath = DEFAULT_ROOT_PATH,
    sessionTimeoutMs = DEFAULT_SESSION_TIMEOUT_MS,
    unavailableAfterMs = DEFAULT_UNAVAILABLE_AFTER_MS,
    requestTimeoutMs,
    auth,
  } = options;
  const { servers, chroot } = parseConnectString(connectString);
  checkPath("'rootPath'", rootPath);
  checkDuration("sessionTimeoutMs", sessionTimeoutMs, MIN_SESSION_TIMEOUT_MS);
  checkDuration("unavailableAfterMs", unavailableAfterMs);
  if (requestTimeoutMs !== undefined) checkDuration("requestTimeoutMs", requestTimeoutMs);
  if (auth !== undefined) checkAuth(auth);
  return {
    servers: shuffled(servers),
    rootPath: chroot + rootPath,
    sessionTimeoutMs,
    auth: auth && { ...auth },
    unavailableAfterMs,
    requestTimeoutMs,
  };
}

/** Checks credentials. The error messages do not show the values, which are secrets. */
function checkAuth(auth: ZooKeeperAuth): void {
  const { scheme, credentials } = auth ?? {};
  if (typeof scheme !== "string" || typeof credentials !== "string") {
    throw new TypeError(
      "Cannot use 'auth' as it must have a 'scheme' and 'credentials', both strings",
    );
  }
  if (scheme === "" || credentials === "") {
    throw new RangeError("Cannot use 'auth' as its 'scheme' or its 'credentials' are empty");
  }
}

/** Shuffles the servers, so that clients spread over them. */
function shuffled<T>(items: readonly T[]): T[] {
  return items
    .map((item) => ({ item, rank: Math.random() }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ item }) => item);
}
