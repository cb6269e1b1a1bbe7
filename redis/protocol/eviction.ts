/**
 * Whether a server may evict lock keys. Pure.
 *
 * @module
 */

/**
 * The warning for a server that may evict lock keys: they have a TTL, so every policy but
 * `noeviction` can choose them. Returns `null` if the server does not evict.
 *
 * @param info The reply of `INFO memory`.
 * @see {@link https://redis.io/docs/latest/develop/reference/eviction/}
 */
export function evictionWarning(info: string): string | null {
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1];
  const limit = /^maxmemory:(\d+)/m.exec(info)?.[1];
  if (policy === undefined || policy === "noeviction" || limit === undefined || limit === "0") {
    return null;
  }
  return `Redis may evict held locks when its memory is full, as 'maxmemory-policy' is "${policy}": ` +
    `set it to "noeviction" on the server that keeps the locks`;
}
