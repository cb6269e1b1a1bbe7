/**
 * Whether a server may evict the keys of locks, by its memory settings. Pure.
 *
 * @module
 */

/**
 * Returns a warning if the server may evict lock keys, `null` if it does not evict. Lock keys have a
 * TTL, so every policy except `noeviction` can choose them.
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
