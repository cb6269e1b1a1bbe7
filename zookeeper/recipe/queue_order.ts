/**
 * The order of a lock's queue: how its entries are named and sorted, and what one listing shows.
 *
 * @module
 * @see {@link https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks}
 */
import type { LockMode } from "../../core/contract/distributed_lock.ts";
import type { Children } from "../connection/wire.ts";

/** ZooKeeper's counter overflows behind it. */
export const MAX_SEQUENCE = 2 ** 31 - 1;

/** Whether ZooKeeper gave a sequence number to one znode only. */
export function isInRange(sequence: number): boolean {
  return sequence >= 0 && sequence < MAX_SEQUENCE;
}

/** The znode of the holder or of a waiter: its name, and the number that ZooKeeper appended to that. */
export interface QueueEntry {
  readonly name: string;
  readonly sequence: number;
}

/** Our shared entries match `ENTRY_NAME`, too: Curator, kazoo and our earlier versions wait for them. */
const SHARED_NAME = /^_c_[\da-f-]*-read-lock-(?:\d{10}|-\d{9,10})$/;

/** Whether it is the name of a shared entry. All others exclude everybody. */
export function isSharedName(name: string): boolean {
  return SHARED_NAME.test(name);
}

/** Curator and this package write `-lock-`, kazoo `__lock__`. An overflowed number is negative. */
const ENTRY_NAME = /(?:-lock-|__lock__)(\d{10}|-\d{9,10})$/;

/** The entries of tries, see {@linkcode newGuid}: each holds the lock, or is deleted soon. */
const TRY_NAME = /^_c_[\da-f]{8}-[\da-f]{4}-8/;

/**
 * The beginning of an entry's name, in the form of Curator's "protection", so that Curator's mutex and ours exclude
 * each other. The GUID is used for one entry only, and finds it if its create is not answered.
 *
 * @see {@link https://curator.apache.org/docs/recipes-shared-reentrant-lock}
 */
export function entryPrefix(guid: string, mode: LockMode): string {
  return mode === "shared" ? `_c_${guid}-read-lock-` : `_c_${guid}-lock-`;
}

/** Makes a UUID. Version 8, not 4, shows other clients that its entry is that of a try: it waits for no holder. */
export function newGuid(isTry: boolean): string {
  const guid = crypto.randomUUID();
  return isTry ? `${guid.slice(0, 14)}8${guid.slice(15)}` : guid;
}

/** `null` if it is not the name of an entry. */
export function sequenceOf(name: string): number | null {
  const digits = ENTRY_NAME.exec(name)?.[1];
  return digits === undefined ? null : Number(digits);
}

/** Sorts the entries among the children. Compared as text, negative numbers would be out of order. */
export function sortedEntries(children: readonly string[]): QueueEntry[] {
  const entries: QueueEntry[] = [];
  for (const name of children) {
    const sequence = sequenceOf(name);
    if (sequence !== null) entries.push({ name, sequence });
  }
  return entries.sort((a, b) => a.sequence - b.sequence);
}

/** _Blockers_ are entries ahead that keep ours from the lock: all, or if it is shared the exclusive ones. */
export interface QueuePosition {
  /** How many entries are ahead of ours. */
  readonly ahead: number;
  /** How many of them are blockers. */
  readonly blockers: number;
  /** The first of the blockers; else ours. */
  readonly firstBlocker: QueueEntry;
  /** Whether all blockers were made by `tryAcquire()`. */
  readonly isBehindTriesOnly: boolean;
  /** The position among the waiters: 1 for the next in line. */
  readonly turn: number;
  /** All entries but those of the holders. */
  readonly waiterCount: number;
  /**
   * Whether the numbers show the order of creation. They do not at the end of their range: ZooKeeper gives
   * 2³¹ - 1 to several znodes, and negative numbers after it. Then the lock must not be taken.
   *
   * @see {@link https://issues.apache.org/jira/browse/ZOOKEEPER-4706}
   */
  readonly isOrderKnown: boolean;
}

/** How many entries at the front are shared, and so hold the lock together; 1 if the first one is not. */
export function countHolders(entries: readonly QueueEntry[]): number {
  let count = 0;
  while (count < entries.length && isSharedName(entries[count]!.name)) count++;
  return count === 0 ? Math.min(1, entries.length) : count;
}

/** One listing of a queue, sorted once for all calls that look up their positions. */
export class QueueView {
  readonly children: Children;
  /** The connection of the listing. */
  readonly epoch: number;
  readonly holderCount: number;
  readonly #entries: readonly QueueEntry[];
  readonly #indexes = new Map<string, number>();
  /** How many entries at the front were made by `tryAcquire()`. */
  readonly #tryCount: number;
  /** The exclusive entries, and how many are before each index of all; made for a shared entry of ours. */
  #exclusive: {
    readonly entries: readonly QueueEntry[];
    readonly countBefore: readonly number[];
  } | null = null;

  constructor(children: Children, epoch: number) {
    this.children = children;
    this.epoch = epoch;
    const entries = this.#entries = sortedEntries(children.names);
    for (const [index, { name }] of entries.entries()) this.#indexes.set(name, index);
    this.#tryCount = countTries(entries);
    this.holderCount = countHolders(entries);
  }

  get size(): number {
    return this.#entries.length;
  }

  /** Returns the position of our entry, or `null` if it is missing: then we neither hold nor wait. */
  positionOf(ownName: string): QueuePosition | null {
    const index = this.#indexes.get(ownName);
    if (index === undefined) return null;
    const entries = this.#entries;
    const own = entries[index]!;
    const isShared = isSharedName(ownName);
    const blocking = isShared ? this.#exclusiveEntries() : null;
    const blockers = blocking?.countBefore[index] ?? index;
    const tries = blocking === null ? this.#tryCount : countTries(blocking.entries);
    return {
      ahead: index,
      blockers,
      firstBlocker: (blocking?.entries ?? entries)[0] ?? own,
      isBehindTriesOnly: blockers <= tries,
      turn: index - this.holderCount + 1,
      waiterCount: entries.length - this.holderCount,
      isOrderKnown: isInRange(own.sequence) && entries[index - 1]?.sequence !== own.sequence &&
        entries[index + 1]?.sequence !== own.sequence,
    };
  }

  /**
   * The blockers of our entry, which must be listed, the nearest one last; without those before `firstName`, which is,
   * or was, the first in the queue. `isAll`: no other entry is ahead of ours, not even a shared one.
   */
  blockersOf(
    ownName: string,
    firstName: string | undefined,
  ): { readonly entries: readonly QueueEntry[]; readonly isAll: boolean } {
    const index = this.#indexes.get(ownName)!;
    const first = firstName === undefined ? 0 : this.#indexes.get(firstName) ?? 0;
    if (!isSharedName(ownName)) return { entries: this.#entries.slice(first, index), isAll: true };
    const { entries, countBefore } = this.#exclusiveEntries();
    const blockers = entries.slice(countBefore[first], countBefore[index]);
    return { entries: blockers, isAll: blockers.length === index - first };
  }

  #exclusiveEntries() {
    if (this.#exclusive !== null) return this.#exclusive;
    const entries: QueueEntry[] = [];
    const countBefore: number[] = [];
    for (const entry of this.#entries) {
      countBefore.push(entries.length);
      if (!isSharedName(entry.name)) entries.push(entry);
    }
    return this.#exclusive = { entries, countBefore };
  }
}

function countTries(entries: readonly QueueEntry[]): number {
  let count = 0;
  while (count < entries.length && TRY_NAME.test(entries[count]!.name)) count++;
  return count;
}
