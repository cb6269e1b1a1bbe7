/**
 * A set in order of insertion, or in one of the caller's, whose first element is found in constant time.
 *
 * @module
 */

interface Link<T> {
  readonly value: T;
  previous: Link<T> | null;
  next: Link<T> | null;
}

/**
 * A doubly linked list that finds each of its values. The first value of a `Set` is not found in
 * constant time: a `Set` steps over the places of its deleted values.
 */
export class LinkedSet<T> implements Iterable<T> {
  readonly #links = new Map<T, Link<T>>();
  #head: Link<T> | null = null;
  #tail: Link<T> | null = null;

  get size(): number {
    return this.#links.size;
  }

  get first(): T | undefined {
    return this.#head?.value;
  }

  has(value: T): boolean {
    return this.#links.has(value);
  }

  /**
   * Adds a value. Does nothing if it is in the set already.
   *
   * @param precedes Whether it belongs before the given value. Asked from the end of the set on, until it is
   * false; without it, the value is added at the end.
   */
  add(value: T, precedes?: (last: T) => boolean): void {
    if (this.#links.has(value)) return;
    let previous = this.#tail;
    while (previous !== null && precedes?.(previous.value)) previous = previous.previous;
    const next = previous === null ? this.#head : previous.next;
    const link: Link<T> = { value, previous, next };
    if (previous === null) this.#head = link;
    else previous.next = link;
    if (next === null) this.#tail = link;
    else next.previous = link;
    this.#links.set(value, link);
  }

  /** Removes a value. Returns whether it was in the set. */
  delete(value: T): boolean {
    const link = this.#links.get(value);
    if (link === undefined) return false;
    this.#links.delete(value);
    if (link.previous === null) this.#head = link.next;
    else link.previous.next = link.next;
    if (link.next === null) this.#tail = link.previous;
    else link.next.previous = link.previous;
    return true;
  }

  /** The first values, in their order. */
  take(max: number): T[] {
    const first: T[] = [];
    for (let link = this.#head; link !== null && first.length < max; link = link.next) {
      first.push(link.value);
    }
    return first;
  }

  shift(): T | undefined {
    const first = this.first;
    if (first !== undefined) this.delete(first);
    return first;
  }

  *[Symbol.iterator](): Iterator<T> {
    for (let link = this.#head; link !== null; link = link.next) yield link.value;
  }
}
