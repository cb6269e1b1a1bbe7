/**
 * Deadlines in order of time. The timer that waits for them is in `shared_timer.ts`.
 *
 * @module
 */

/** A deadline, and its place in the heap. */
export interface Deadline {
  readonly dueMs: number;
  /** Decides between deadlines of the same moment: the smaller one comes first. */
  readonly order: number;
  readonly callback: () => void;
  /** Its index in the heap; -1 if it is not in the heap. Only the heap writes it. */
  index: number;
}

function isBefore(a: Deadline, b: Deadline): boolean {
  return a.dueMs < b.dueMs || (a.dueMs === b.dueMs && a.order < b.order);
}

/** A binary heap: adding and removing any deadline takes O(log n). */
export class DeadlineHeap {
  readonly #items: Deadline[] = [];

  /** The number of deadlines. */
  get size(): number {
    return this.#items.length;
  }

  /** The earliest deadline. */
  get first(): Deadline | undefined {
    return this.#items[0];
  }

  /** Adds a deadline. */
  add(deadline: Deadline): void {
    this.#items.push(deadline);
    this.#rise(deadline, this.#items.length - 1);
  }

  /** Removes a deadline. Returns whether it was in the heap. */
  delete(deadline: Deadline): boolean {
    const { index } = deadline;
    if (index === -1) return false;
    deadline.index = -1;
    const last = this.#items.pop()!;
    if (last === deadline) return true;
    this.#rise(last, index);
    this.#sink(last, last.index);
    return true;
  }

  /** Puts `item` at a free index, or above it. */
  #rise(item: Deadline, index: number): void {
    while (index > 0) {
      const parentIndex = (index - 1) >> 1;
      const parent = this.#items[parentIndex]!;
      if (isBefore(parent, item)) break;
      this.#place(parent, index);
      index = parentIndex;
    }
    this.#place(item, index);
  }

  /** Puts `item`, which is at `index`, below all deadlines that come before it. */
  #sink(item: Deadline, index: number): void {
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

  #place(item: Deadline, index: number): void {
    this.#items[index] = item;
    item.index = index;
  }
}
