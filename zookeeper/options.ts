import type { RenewalLate } from "../core/contract/distributed_lock.ts";
import {
  badValue,
  callback,
  describe,
  duration,
  type OptionTable,
  type ReadOptions,
} from "../core/contract/options.ts";
import { STRATEGY_OPTIONS, type StrategyOptions } from "../core/lease/lifetime.ts";
import { readServers } from "./connection/servers.ts";
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
   * How long in ms an outage of ZooKeeper may last before a call rejects with a `LockUnavailableError`.
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

export const ZOOKEEPER_LOCK_OPTIONS = {
  ...STRATEGY_OPTIONS,
  rootPath: { default: "/holdfast/locks", check: checkPath },
  sessionTimeoutMs: duration({ min: 100, otherwise: 10_000 }),
  auth: { default: undefined, check: checkObject },
  tls: { default: undefined, check: checkObject },
  unavailableAfterMs: duration({ otherwise: 5_000 }),
  requestTimeoutMs: duration(),
  onRenewalLate: callback(),
} satisfies OptionTable<ZooKeeperLockOptions>;

/** The root path, and the options of the connections. Throws as the constructor of `ZooKeeperLock` does. */
export function readSettings(
  source: unknown,
  { rootPath, sessionTimeoutMs, auth, tls, unavailableAfterMs, requestTimeoutMs }: ReadOptions<
    ZooKeeperLockOptions,
    typeof ZOOKEEPER_LOCK_OPTIONS
  >,
  warn: (message: string) => void,
): TransportOptions & { readonly rootPath: string } {
  const { listServers, chroot } = readServers(source);
  return {
    listServers,
    rootPath: chroot + rootPath,
    sessionTimeoutMs,
    auth: auth && readAuth(auth),
    tls: tls === undefined ? undefined : readTls(tls),
    warn,
    unavailableAfterMs,
    requestTimeoutMs,
  };
}

/** Its members are checked when they are read. */
function checkObject(what: string, value: unknown): void {
  if (typeof value !== "object" || value === null) {
    throw new TypeError(badValue(what, "an object", describe(value)));
  }
}

/** The error messages do not show the values, which are secrets. */
function readAuth({ scheme, credentials }: ZooKeeperAuth): ZooKeeperAuth {
  const must = "an object with a 'scheme' and 'credentials', both strings that are not empty";
  if (typeof scheme !== "string" || typeof credentials !== "string") {
    throw new TypeError(badValue("'auth'", must, "one with another type"));
  }
  if (scheme === "" || credentials === "") {
    throw new RangeError(badValue("'auth'", must, "one with an empty string"));
  }
  return { scheme, credentials };
}
