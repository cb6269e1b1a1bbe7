/**
 * The options of the ZooKeeper strategy.
 *
 * @module
 */
import type { StrategyOptions } from "../core/lifetime.ts";
import { checkDuration } from "../core/validate.ts";
import { parseConnectString, type ServerAddress } from "./transport/connect_string.ts";
import type { ZooKeeperAuth } from "./transport/transport.ts";
import { checkPath } from "./transport/znode_names.ts";

/** Options of {@linkcode ZooKeeperLock}. */
export interface ZooKeeperLockOptions extends StrategyOptions {
  /**
   * The znode that all locks are below, made if it is missing: the lock `orders:42` is
   * `<rootPath>/orders:42`. The znodes of locks that are not used are deleted.
   *
   * @default {"/holdfast/locks"}
   */
  rootPath?: string;
  /**
   * How long in ms the servers keep the session, and so the locks, of a process that they do not hear
   * from: how long a dead holder blocks the others. The servers bound it by 2 and 20 ticks (4 to 40
   * seconds unless configured). At least 100.
   *
   * @default {10000}
   */
  sessionTimeoutMs?: number;
  /**
   * Credentials. With them, all znodes made here belong to their owner alone, so everybody who shares
   * these locks needs the same ones.
   */
  auth?: ZooKeeperAuth;
  /**
   * How long in ms ZooKeeper may be out of reach before a call rejects with a `LockUnavailableError`.
   *
   * @default {5000}
   */
  unavailableAfterMs?: number;
  /**
   * How long in ms a request may be without an answer before the connection is given up for another
   * one. A quarter of the session timeout, but at most half of `unavailableAfterMs`, unless given.
   */
  requestTimeoutMs?: number;
}

/** Default of {@linkcode ZooKeeperLockOptions.rootPath}. */
export const DEFAULT_ROOT_PATH = "/holdfast/locks";
/** Default of {@linkcode ZooKeeperLockOptions.sessionTimeoutMs}. */
export const DEFAULT_SESSION_TIMEOUT_MS = 10_000;
/** Default of {@linkcode ZooKeeperLockOptions.unavailableAfterMs}. */
export const DEFAULT_UNAVAILABLE_AFTER_MS = 5_000;

/** Shortest session timeout in ms. */
const MIN_SESSION_TIMEOUT_MS = 100;

/** What the strategy works with. */
export interface Settings {
  readonly servers: readonly ServerAddress[];
  /** The root path with the chroot before it: no znode is named without it. */
  readonly rootPath: string;
  readonly sessionTimeoutMs: number;
  readonly auth: ZooKeeperAuth | undefined;
  readonly unavailableAfterMs: number;
  /** How long a request may be without an answer in ms, for the session timeout that was granted. */
  requestTimeoutMs(timeoutMs: number): number;
}

/**
 * Fills in defaults and checks.
 *
 * @param connectString The servers, and perhaps a chroot.
 * @param options The options of the user.
 * @returns The settings.
 * @throws {TypeError|RangeError} If an argument is bad.
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
    requestTimeoutMs: (timeoutMs) =>
      requestTimeoutMs ?? Math.ceil(Math.min(timeoutMs / 4, unavailableAfterMs / 2)),
  };
}

/** Says nothing of the values: they are secrets. */
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

/** In an order of chance, so that clients spread over the servers. */
function shuffled<T>(items: readonly T[]): T[] {
  return items
    .map((item) => ({ item, rank: Math.random() }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ item }) => item);
}
