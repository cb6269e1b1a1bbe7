/**
 * What a server's settings mean for locks on it.
 *
 * @module
 */

/**
 * The warning for a server that may evict lock keys, which have a TTL and so are fair game for every
 * policy but one; `null` if there is nothing to fear.
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
