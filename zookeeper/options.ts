/**
 * The options of the ZooKeeper strategy: their defaults and their checks. The connect string is parsed in
 * `transport/connect_string.ts`, and the settings of TLS are checked in `transport/tls.ts`.
 *
 * @module
 */
import type { RenewalLate } from "../core/contract/renewal_late.ts";
import { STRATEGY_NAMES, type StrategyOptions } from "../core/lease/lifetime.ts";
import { checkNames, type OptionNames } from "../core/contract/option_names.ts";
import { checkDuration, checkOptional } from "../core/contract/validate.ts";
import type { Warnings } from "../core/contract/warnings.ts";
import { type ConnectSource, readServers } from "./connection/connect_string.ts";
import { readTls, type ZooKeeperTls } from "./connection/tls.ts";
import type { TransportOptions, ZooKeeperAuth } from "./connection/transport.ts";
import { checkPath } from "./connection/znode_names.ts";

/** Options of {@linkcode ZooKeeperLock}. */
export interface ZooKeeperLockOptions extends StrategyOptions {
  /**
   * The path of the znode that all locks are below. It is created if it is missing. The znode of the
   * lock `orders:42` is `<rootPath>/orders:42`. The znodes of unused locks are deleted.
   *
   * @default {"/holdfast/locks"}
   */
  rootPath?: string | undefined;
  /**
   * How long in ms the servers keep the session, and so the locks, of a process that has stopped
   * answering. So long does a dead holder block the waiters. The servers raise or lower the value to 2
   * to 20 of their ticks: 4 to 40 seconds, unless they are configured otherwise. At least 100.
   *
   * @default {10000}
   */
  sessionTimeoutMs?: number | undefined;
  /**
   * The credentials of this client. If set, only clients with the same credentials have access to the
   * znodes that are created here. So all processes that share these locks need the same credentials.
   */
  auth?: ZooKeeperAuth | undefined;
  /**
   * Connects with TLS, to the `secureClientPort` of the servers, which must have valid certificates.
   * With `cert` and `key`, the servers know this client by its certificate: it may use znodes whose access
   * control list has the scheme `x509` and the certificate's subject.
   *
   * @example Usage
   * ```ts ignore
   * import { readFile } from "node:fs/promises";
   * import { ZooKeeperLock } from "@holdfast/lock/zookeeper";
   *
   * export async function openLocks(): Promise<ZooKeeperLock> {
   *   const ca = await readFile("ca.pem");
   *   const cert = await readFile("client.pem");
   *   const key = await readFile("client-key.pem");
   *   return new ZooKeeperLock("zk1:2181,zk2:2181,zk3:2181", { tls: { ca, cert, key } });
   * }
   * ```
   */
  tls?: ZooKeeperTls | undefined;
  /**
   * How long in ms an outage of ZooKeeper may last before a call rejects with a
   * `LockUnavailableError`.
   *
   * @default {5000}
   */
  unavailableAfterMs?: number | undefined;
  /**
   * How long in ms requests may stay without any answer before the client reconnects. The servers answer
   * in the order of the requests, so the time counts from the last answer.
   *
   * @default a quarter of `sessionTimeoutMs`, at most half of `unavailableAfterMs`
   */
  requestTimeoutMs?: number | undefined;
  /**
   * An early warning, called when less than a third of a lease's time is left because no renewal was
   * answered. Only for leases that are renewed automatically. Called once, and again only after a renewal
   * was answered. Errors that it throws are ignored.
   */
  onRenewalLate?: ((late: RenewalLate) => void) | undefined;
}

const NAMES: OptionNames & Record<keyof ZooKeeperLockOptions, true> = {
  ...STRATEGY_NAMES,
  onRenewalLate: true,
  rootPath: true,
  sessionTimeoutMs: true,
  auth: true,
  tls: true,
  unavailableAfterMs: true,
  requestTimeoutMs: true,
};

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
  readonly onRenewalLate: ZooKeeperLockOptions["onRenewalLate"];
}

/**
 * Checks the arguments of the constructor and fills in the defaults.
 *
 * @param source The servers, and optionally a chroot.
 * @param options The options of the user.
 * @param warnings The warnings of the instance.
 * @returns The settings.
 * @throws {TypeError} If an argument has a wrong type.
 * @throws {RangeError} If an argument is out of range.
 */
export function readSettings(
  source: ConnectSource,
  options: ZooKeeperLockOptions,
  warnings: Warnings,
): Settings {
  checkNames("new ZooKeeperLock()", options, NAMES);
  const {
    rootPath = DEFAULT_ROOT_PATH,
    sessionTimeoutMs = DEFAULT_SESSION_TIMEOUT_MS,
    unavailableAfterMs = DEFAULT_UNAVAILABLE_AFTER_MS,
    requestTimeoutMs,
    auth,
    tls,
    onRenewalLate,
  } = options;
  const { listServers, chroot } = readServers(source);
  checkPath("'rootPath'", rootPath);
  checkDuration("sessionTimeoutMs", sessionTimeoutMs, MIN_SESSION_TIMEOUT_MS);
  checkDuration("unavailableAfterMs", unavailableAfterMs);
  if (requestTimeoutMs !== undefined) checkDuration("requestTimeoutMs", requestTimeoutMs);
  if (auth !== undefined) checkAuth(auth);
  checkOptional("onRenewalLate", onRenewalLate, "function");
  return {
    listServers,
    rootPath: chroot + rootPath,
    sessionTimeoutMs,
    auth: auth && { ...auth },
    tls: tls === undefined ? undefined : readTls(tls),
    warnings,
    unavailableAfterMs,
    requestTimeoutMs,
    onRenewalLate,
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
