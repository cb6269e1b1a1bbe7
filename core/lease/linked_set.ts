interface Link<T> {
  readonly value: T;
  previous: Link<T> | null;
  next: Link<T> | null;
}

/**
 * A set in order of insertion, or in one of the caller's, whose first element is found in constant time: a `Set`
 * steps over the places of its deleted values.
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
   * Adds a value, unless it is in the set: at the end, or before the last values that it precedes. `precedes` is
   * asked from the end on, until it is false.
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
