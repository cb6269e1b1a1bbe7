/**
 * The queue of a lock as one listing shows it. It is sorted once for all calls that look up their positions.
 * How names are read is in `order.ts`.
 *
 * @module
 */
import { isInRange, isTry, type QueueEntry, sortedEntries } from "./order.ts";

/** The position of an entry in its queue. */
export interface QueuePosition {
  /** The number of entries before ours: the holder's, and those of the earlier waiters. */
  readonly ahead: number;
  /** The entry directly before ours; `null` if ours is the first one. */
  readonly predecessor: QueueEntry | null;
  /** The first entry: the holder's. */
  readonly first: QueueEntry;
  /** Whether all entries before ours were made by `tryAcquire()`. */
  readonly isBehindTriesOnly: boolean;
  /** The number of waiters: all entries but the holder's. */
  readonly waiterCount: number;
  /** Whether our znode is the only child of the lock's znode. */
  readonly isOnlyChild: boolean;
  /**
   * Whether the sequence numbers still show the order of creation. They do not at the end of their
   * range: ZooKeeper gives 2³¹ - 1 to several znodes, and negative numbers after it. Then the lock must
   * not be taken.
   *
   * @see {@link https://issues.apache.org/jira/browse/ZOOKEEPER-4706}
   */
  readonly isOrderKnown: boolean;
}

/** The sorted entries of one listing. */
export class QueueView {
  readonly #childCount: number;
  readonly #entries: readonly QueueEntry[];
  readonly #indexes: ReadonlyMap<string, number>;
  /** How many entries at the front were made by `tryAcquire()`. */
  readonly #tryCount: number;

  /** Sorts the children of the lock's znode, given by their names. Some may be no entries. */
  constructor(children: readonly string[]) {
    this.#childCount = children.length;
    this.#entries = sortedEntries(children);
    this.#indexes = new Map(this.#entries.map(({ name }, index) => [name, index]));
    const firstWaiter = this.#entries.findIndex((entry) => !isTry(entry));
    this.#tryCount = firstWaiter === -1 ? this.#entries.length : firstWaiter;
  }

  /**
   * Finds the position of our entry.
   *
   * @param ownName The name of our own znode.
   * @returns The position, or `null` if our znode is missing: then we neither hold the lock nor wait.
   */
  positionOf(ownName: string): QueuePosition | null {
    const entries = this.#entries;
    const index = this.#indexes.get(ownName);
    if (index === undefined) return null;
    return {
      ahead: index,
      predecessor: entries[index - 1] ?? null,
      first: entries[0]!,
      isBehindTriesOnly: index <= this.#tryCount,
      waiterCount: entries.length - 1,
      isOnlyChild: this.#childCount === 1,
      isOrderKnown: this.#isOrderKnown(index),
    };
  }

  /** The number of entries. */
  get size(): number {
    return this.#entries.length;
  }

  /**
   * Returns the entries ahead of ours, beginning with one that is known to be, or to have been, the first.
   *
   * @param ownName The name of our own znode.
   * @param firstName The name of that entry. Without it, or if it is not listed, all of them are returned.
   * @returns The entries, the nearest one last; `null` if our znode is missing.
   */
  entriesAhead(ownName: string, firstName: string | null): QueueEntry[] | null {
    const index = this.#indexes.get(ownName);
    if (index === undefined) return null;
    const first = firstName === null ? 0 : this.#indexes.get(firstName) ?? 0;
    return this.#entries.slice(first, index);
  }

  #isOrderKnown(index: number): boolean {
    const { sequence } = this.#entries[index]!;
    if (!isInRange(sequence)) return false;
    return [index - 1, index + 1].every((next) => this.#entries[next]?.sequence !== sequence);
  }
}
