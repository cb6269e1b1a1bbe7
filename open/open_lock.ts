import type { DistributedLock } from "../core/contract/distributed_lock.ts";
import { readTable } from "../core/contract/options.ts";
import { bad, parseLockUrl } from "./lock_url.ts";
import { OPEN_LOCK_OPTIONS, type OpenLockOptions } from "./options.ts";
import { loadZooKeeper } from "./zookeeper_module.ts";

const REDIS = () => import("./redis.ts");

/** By scheme: loads the module that opens its URLs. */
const OPENERS = {
  "redis": REDIS,
  "rediss": REDIS,
  "redis+cluster": REDIS,
  "rediss+cluster": REDIS,
  "redis+sentinel": REDIS,
  "rediss+sentinel": REDIS,
  "zookeeper": loadZooKeeper,
  "file": () => import("./file.ts"),
  "memory": () => import("./memory.ts"),
};

/**
 * Opens the lock that a URL names, so that the place of the locks can be a setting of the deployment. The
 * lock owns its client: disposing the lock closes it.
 *
 * | URL                                       | locks                                                    |
 * | ----------------------------------------- | -------------------------------------------------------- |
 * | `redis://user:password@host:6379/0`       | on Redis or Valkey, in database 0                        |
 * | `redis+cluster://host1:7000,host2:7001`   | on a Redis Cluster                                       |
 * | `redis+sentinel://host1,host2/mymaster/0` | on the primary that sentinels call `mymaster`            |
 * | `zookeeper://host1:2181,host2:2181/app`   | on ZooKeeper, all paths below `/app`                     |
 * | `file:///run/lock/app`, `file:`           | on files in that directory, or in the user's own         |
 * | `memory:`                                 | in memory; each lock that is opened has its own          |
 *
 * `rediss:`, `rediss+cluster:` and `rediss+sentinel:` connect with TLS. Options of the strategy follow as
 * `?ttlMs=5000&keyPrefix=app:`, and are checked as there. So do these:
 *
 * | option                              | of                                                             |
 * | ----------------------------------- | -------------------------------------------------------------- |
 * | `client`                            | Redis: `redis` (node-redis) or `ioredis`; else the one that is installed |
 * | `caFile`, `certFile`, `keyFile`     | Redis with TLS, and ZooKeeper: paths of PEM files              |
 * | `tls=true`                          | ZooKeeper: TLS with the authorities that the runtime trusts    |
 * | `sentinelUser`, `sentinelPassword`  | `redis+sentinel:`, if the sentinels want a login               |
 *
 * In a user or password, escape `@ / ? # %` and white space, as in `%40`. ZooKeeper takes both as credentials
 * of the scheme `digest`.
 *
 * It does not wait for the server: the first call on the lock does, and rejects with a
 * `LockUnavailableError` if there is none. A password never appears in an error.
 *
 * @param url Where the locks live.
 * @param options Options that belong to the program. An option stands here or in the URL, not in both.
 * @returns The lock. For `attach()`, use `RedisLock`.
 * @throws {TypeError} If the URL or an option is malformed, unknown, or stands in both places. The message
 * names the part.
 * @throws {RangeError} If an option is out of range.
 * @throws {LockSetupError} If the client package is not installed (the message has the command), or a file
 * cannot be read.
 *
 * @example Usage
 * ```ts
 * import { openLock } from "@holdfast/lock/open";
 * import { assertEquals } from "@std/assert";
 *
 * await using locks = await openLock(Deno.env.get("HOLDFAST_URL") ?? "memory:", { label: "billing" });
 * assertEquals(await locks.request("orders:42", () => "done"), "done");
 * ```
 */
export async function openLock(
  url: string,
  options: OpenLockOptions = {},
): Promise<DistributedLock> {
  const parts = parseLockUrl(url);
  const read = readTable("openLock()", options, OPEN_LOCK_OPTIONS);
  if (!Object.hasOwn(OPENERS, parts.scheme)) {
    throw bad("the scheme", `must be one of ${Object.keys(OPENERS).join(", ")}`);
  }
  for (const name of parts.query.keys()) {
    if (options[name as keyof OpenLockOptions] === undefined) continue;
    throw new TypeError(`Cannot use '${name}': it stands in the URL and in the options`);
  }
  const { open } = await OPENERS[parts.scheme as keyof typeof OPENERS]();
  return await open(parts, read);
}
