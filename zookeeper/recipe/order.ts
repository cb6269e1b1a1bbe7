/**
 * The order of the znodes in a lock's queue, and their names. Pure functions: requests are in
 * `own_znode.ts` and `lock_recipe.ts`, positions in `queue_view.ts`.
 *
 * @module
 * @see {@link https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks}
 */

/** The greatest sequence number that ZooKeeper gives before its counter overflows. */
export const MAX_SEQUENCE = 2 ** 31 - 1;

/** Whether ZooKeeper gave a sequence number before the end of their range, and so to one znode only. */
export function isInRange(sequence: number): boolean {
  return sequence >= 0 && sequence < MAX_SEQUENCE;
}

/** One entry of a lock's queue: the znode of the holder or of a waiter. */
export interface QueueEntry {
  /** The name of the znode, without its parent. */
  readonly name: string;
  /** The number that ZooKeeper appended to the name. */
  readonly sequence: number;
}

/** Curator and this package write `-lock-`, kazoo `__lock__`. An overflowed number is negative. */
const ENTRY_NAME = /(?:-lock-|__lock__)(\d{10}|-\d{9,10})$/;

/** Matches the GUIDs that {@linkcode newGuid} makes for `tryAcquire()`. */
const TRY_NAME = /^_c_[\da-f]{8}-[\da-f]{4}-8/;

/**
 * Returns the beginning of an entry's name. It has the form that Curator's "protection" gives a name, so
 * that Curator's mutex and ours exclude each other. The GUID finds the entry if its create is not
 * answered.
 *
 * @param guid A random UUID that is used for one entry only.
 * @returns The name without the sequence number.
 * @see {@link https://curator.apache.org/docs/recipes-shared-reentrant-lock}
 */
export function entryPrefix(guid: string): string {
  return `_c_${guid}-lock-`;
}

/**
 * Makes a random UUID for an entry.
 *
 * @param isTry Whether the entry is made by `tryAcquire()`. Then the UUID has the version 8 instead of
 * 4, which shows other clients that this entry does not wait.
 * @returns The UUID.
 */
export function newGuid(isTry: boolean): string {
  const guid = crypto.randomUUID();
  return isTry ? `${guid.slice(0, 14)}8${guid.slice(15)}` : guid;
}

/**
 * Tells whether an entry was made by `tryAcquire()`. Such an entry holds the lock, or is deleted soon.
 *
 * @param entry The entry. Attempts of Curator and kazoo that do not wait look like waiters.
 */
export function isTry({ name }: QueueEntry): boolean {
  return TRY_NAME.test(name);
}

/** Returns the number that ZooKeeper appended to a name; `null` if it is not the name of an entry. */
export function sequenceOf(name: string): number | null {
  const digits = ENTRY_NAME.exec(name)?.[1];
  return digits === undefined ? null : Number(digits);
}

/**
 * Sorts the entries of a queue in the order in which they get the lock. The sequence numbers are
 * compared as numbers: compared as text, negative numbers would be out of order.
 *
 * @param children The names of the children of the lock's znode.
 * @returns The entries. Children that are no entries are left out.
 */
export function sortedEntries(children: readonly string[]): QueueEntry[] {
  const entries: QueueEntry[] = [];
  for (const name of children) {
    const sequence = sequenceOf(name);
    if (sequence !== null) entries.push({ name, sequence });
  }
  return entries.sort((a, b) => a.sequence - b.sequence || (a.name < b.name ? -1 : 1));
}

/**
 * Finds the entries with a GUID. There is more than one only if a create was executed twice.
 *
 * @param children The names of the children of the lock's znode.
 * @param guid The GUID.
 * @returns The entries, lowest sequence number first.
 */
export function entriesWithGuid(children: readonly string[], guid: string): QueueEntry[] {
  const prefix = entryPrefix(guid);
  return sortedEntries(children.filter((name) => name.startsWith(prefix)));
}
