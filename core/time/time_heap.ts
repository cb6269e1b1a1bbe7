/**
 * Items in order of time, of which any can be removed: for timers and queues.
 *
 * @module
 */

/** An item of a {@linkcode TimeHeap}. */
export interface Timed {
  /** Its moment, in monotonic ms. */
  readonly atMs: number;
  /** Decides between items of the same moment: the smaller one comes first. */
  readonly order: number;
  /** Its index in the heap; -1 if it is not in the heap. Only the heap writes it. */
  index: number;
}

function isBefore(a: Timed, b: Timed): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}

/** A binary heap: adding an item and removing any takes O(log n). It iterates in no order. */
export class TimeHeap<T extends Timed> implements Iterable<T> {
  /** The number of items. Only the heap writes it. */
  size = 0;
  readonly #items: T[] = [];

  /** The earliest item. */
  get first(): T | undefined {
    return this.#items[0];
  }

  [Symbol.iterator](): Iterator<T> {
    return this.#items.values();
  }

  /** Adds an item. */
  add(item: T): void {
    this.#items.push(item);
    this.#rise(item, this.size++);
  }

  /** Removes an item. Returns whether it was in the heap. */
  delete(item: T): boolean {
    const { index } = item;
    if (index === -1) return false;
    item.index = -1;
    this.size--;
    const last = this.#items.pop()!;
    if (last === item) return true;
    this.#rise(last, index);
    this.#sink(last, last.index);
    return true;
  }

  /** Puts `item` at a free index, or above it. */
  #rise(item: T, index: number): void {
    while (index > 0) {
      const parentIndex = (index - 1) >> 1;
      const parent = this.#items[parentIndex]!;
      if (isBefore(parent, item)) break;
      this.#place(parent, index);
      index = parentIndex;
    }
    this.#place(item, index);
  }

  /** Puts `item`, which is at `index`, below all items that come before it. */
  #sink(item: T, index: number): void {
    for (;;) {
      const [left, right] = [this.#items[2 * index + 1], this.#items[2 * index + 2]];
      const child = right !== undefined && isBefore(right, left!) ? right : left;
      if (child === undefined || isBefore(item, child)) break;
      const childIndex = child.index;
      this.#place(child, index);
      index = childIndex;
    }
    this.#place(item, index);
  }

  #place(item: T, index: number): void {
    this.#items[index] = item;
    item.index = index;
  }
}
