import { flag } from "../core/contract/options.ts";
import { ZOOKEEPER_LOCK_OPTIONS } from "../zookeeper/options.ts";
import { ZooKeeperLock } from "../zookeeper/zookeeper_lock.ts";
import { bad, type LockUrl, readQuery, unescape } from "./lock_url.ts";
import type { OpenLockOptions } from "./options.ts";
import { readTlsFiles, TLS_FILES } from "./tls_files.ts";

/** Opens `zookeeper:` URLs. */
export async function open(url: LockUrl, options: OpenLockOptions): Promise<ZooKeeperLock> {
  const { user, password, hosts, path } = url;
  if (hosts.length === 0) throw bad("zookeeper:", "must name a host, as in zookeeper://host:2181");
  if ((user === undefined) !== (password === undefined)) {
    throw bad("zookeeper:", "must have both a user and a password, or neither");
  }
  const auth = user === undefined
    ? undefined
    : { scheme: "digest", credentials: `${user}:${password}` };
  const { tls: _tls, auth: _auth, ...rules } = ZOOKEEPER_LOCK_OPTIONS; // they are no texts
  const read = readQuery(url, { ...rules, ...TLS_FILES, tls: flag() });
  const { caFile, certFile, keyFile, tls: isSecure, ...strategy } = read;
  const texts = await readTlsFiles({ caFile, certFile, keyFile });
  const hasTls = isSecure ?? Object.keys(texts).length > 0;
  if (!hasTls && Object.keys(texts).length > 0) {
    throw new TypeError("Cannot use 'tls': certificates are given, but it is false");
  }
  const connectString = hosts.map(({ host, port }) => {
    const name = host.includes(":") ? `[${host}]` : host;
    return port === undefined ? name : `${name}:${port}`;
  }).join(",") + unescape("the path", path === "/" ? "" : path);
  return new ZooKeeperLock(connectString, {
    ...options,
    ...strategy,
    auth,
    tls: hasTls ? texts : undefined,
  });
}
