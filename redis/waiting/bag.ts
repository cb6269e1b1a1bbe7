/**
 * Items in no order, of which any can be removed.
 *
 * @module
 */

/** An item of a {@linkcode Bag}. */
export interface Bagged {
  /** Its index in the bag; -1 if it is in none. Only the bag writes it. */
  bagIndex: number;
}

/**
 * An array in which the last item fills the place of a removed one. Adding and deleting the items of a
 * `Set` costs ten times as much, most of it in the garbage collector: its table is made anew again and
 * again, and old tables keep items alive that are long gone.
 */
export class Bag<T extends Bagged> implements Iterable<T> {
  readonly #items: T[] = [];

  /** Adds an item that is in no bag. */
  add(item: T): void {
    item.bagIndex = this.#items.length;
    this.#items.push(item);
  }

  /** Removes an item. Does nothing if it is in no bag. */
  delete(item: T): void {
    const { bagIndex } = item;
    if (bagIndex === -1) return;
    item.bagIndex = -1;
    const last = this.#items.pop()!;
    if (last === item) return;
    this.#items[bagIndex] = last;
    last.bagIndex = bagIndex;
  }

  /** Goes through the items that are in the bag now, whatever is added or removed meanwhile. */
  [Symbol.iterator](): Iterator<T> {
    return [...this.#items].values();
  }
}
