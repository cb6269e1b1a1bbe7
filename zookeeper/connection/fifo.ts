/**
 * A queue that stays fast when it is long.
 *
 * @module
 */

/** How many places of removed items are kept at most, unless the queue is longer. */
const MAX_FREE_PLACES = 1_000;

/** First in, first out. (`Array.prototype.shift()` moves all items of an array if it is long.) */
export class Fifo<T> {
  #items: (T | undefined)[] = [];
  #firstIndex = 0;

  /** The oldest item; `undefined` if there is none. */
  get first(): T | undefined {
    return this.#items[this.#firstIndex];
  }

  /** Adds an item. */
  push(item: T): void {
    this.#items.push(item);
  }

  /** Removes the oldest item; `undefined` if there is none. */
  shift(): T | undefined {
    const { first } = this;
    if (this.#firstIndex === this.#items.length) return undefined;
    this.#items[this.#firstIndex++] = undefined;
    if (this.#firstIndex > MAX_FREE_PLACES && this.#firstIndex * 2 > this.#items.length) {
      this.#items.splice(0, this.#firstIndex);
      this.#firstIndex = 0;
    }
    return first;
  }
}
