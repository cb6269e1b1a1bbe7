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
  size = 0;
  readonly #items: T[] = [];

  get first(): T | undefined {
    return this.#items[0];
  }

  [Symbol.iterator](): Iterator<T> {
    return this.#items.values();
  }

  add(item: T): void {
    this.#rise(item, this.size++);
  }

  delete(item: T): boolean {
    const { index } = item;
    if (index === -1) return false;
    item.index = -1;
    this.size--;
    const last = this.#items.pop()!;
    if (last === item) return true;
    this.#rise(last, index);
    this.#sink(last);
    return true;
  }

  /** Puts `item` at a free index, or above it. */
  #rise(item: T, index: number): void {
    const items = this.#items;
    for (item.index = index; item.index > 0;) {
      const parent = items[(item.index - 1) >> 1]!;
      if (isBefore(parent, item)) break;
      items[item.index] = parent;
      [parent.index, item.index] = [item.index, parent.index];
    }
    items[item.index] = item;
  }

  /** Puts `item`, which is at its index, below all items that come before it. */
  #sink(item: T): void {
    const items = this.#items;
    for (;;) {
      const [left, right] = [items[2 * item.index + 1], items[2 * item.index + 2]];
      const child = right !== undefined && isBefore(right, left!) ? right : left;
      if (child === undefined || isBefore(item, child)) break;
      items[item.index] = child;
      [child.index, item.index] = [item.index, child.index];
    }
    items[item.index] = item;
  }
}
