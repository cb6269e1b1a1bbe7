/**
 * The order in which the requests of one client become known: that of its calls, also for different names, as in
 * a browser. Answers of a network come as they come: the grant of a waiter can overtake the answer to another
 * request, and a first request for a name can take longer than the next one for another.
 *
 * So a grant waits for the answers to all requests that were made before it, and that of a waiter also to those that
 * were made since. Then those that did not have to wait begin in the order of their calls, and the others after them:
 * a waiter's grant follows from a release, which came after the requests. And a release waits until earlier requests
 * for its name are answered, so that it comes after them on the service, too.
 *
 * @module
 */

/** How long in ms a grant or a release waits for answers at most: in an outage of one name the others go on. */
const MAX_DELAY_MS = 100;

/** More requests than a client makes: the rank of a waiter follows those of all that did not wait. */
const AFTER_OTHERS = 2 ** 50;

export class RequestOrder {
  #last = 0;
  readonly #all = new Unanswered();
  readonly #ofName = new Map<string, Unanswered>();

  /** A request is sent. Returns what to call when more becomes known of it. */
  enter(name: string): { waits(): void; granted(): Promise<void>; end(): void } {
    const number = ++this.#last;
    let hasWaited = false;
    const ofName = this.#ofName.get(name) ?? new Unanswered();
    this.#ofName.set(name, ofName);
    for (const unanswered of [this.#all, ofName]) unanswered.add(number);
    const forget = () => {
      for (const unanswered of [this.#all, ofName]) unanswered.delete(number);
    };
    const settle = () => {
      for (const unanswered of [this.#all, ofName]) unanswered.settle();
      if (ofName.isIdle && this.#ofName.get(name) === ofName) this.#ofName.delete(name);
    };
    return {
      /** It waits for its lock. */
      waits() {
        hasWaited = true;
        forget();
        settle();
      },
      /** It is granted its lock, or is told that the lock is not free. Resolves when its callback may begin. */
      granted: () => {
        forget();
        const begun = hasWaited
          ? this.#all.answered(this.#last, AFTER_OTHERS + number, MAX_DELAY_MS)
          : this.#all.answered(number, number, MAX_DELAY_MS);
        settle();
        return begun;
      },
      /** It is over, perhaps with an error. */
      end() {
        forget();
        settle();
      },
    };
  }

  /** Resolves when all requests that are under way are answered. */
  async answered(): Promise<void> {
    await this.#all.answered(this.#last, Number.MAX_VALUE);
  }

  /** Resolves when the lock may be released: when the requests for its name that are under way are answered. */
  async mayRelease(name: string): Promise<void> {
    await this.#ofName.get(name)?.answered(this.#last, 0, MAX_DELAY_MS);
  }
}

/**
 * The requests that have no answer yet, and what waits for them. A wait is for all requests that were made before it,
 * so it is over when the oldest one without an answer is a later one: no step looks at all of them.
 */
class Unanswered {
  readonly #numbers = new Set<number>();
  /** The numbers in their order, and where the oldest that may be unanswered is. */
  #line: number[] = [];
  #oldestAt = 0;
  /** In the order of `upTo`, the last request that each waits for. Of those that end together, lower ranks end first. */
  #waits: { readonly upTo: number; readonly rank: number; end(): void }[] = [];

  get isIdle(): boolean {
    return this.#numbers.size === 0 && this.#waits.length === 0;
  }

  add(number: number): void {
    this.#numbers.add(number);
    this.#line.push(number);
  }

  /** Call {@linkcode Unanswered.settle} after it. */
  delete(number: number): void {
    this.#numbers.delete(number);
  }

  /** Resolves when the requests up to a number are answered, or after a time in ms. */
  answered(upTo: number, rank: number, longestMs = Infinity): Promise<void> {
    // In as many steps as a wait that ends now, so that neither overtakes the other.
    if (this.#waits.length === 0 && this.#oldest() > upTo) return Promise.resolve().then(() => {});
    const { promise, resolve: end } = Promise.withResolvers<void>();
    const wait = { upTo, rank, end };
    // Grants need not come in the order of `upTo`.
    this.#waits.splice(this.#waits.findLastIndex((other) => other.upTo <= upTo) + 1, 0, wait);
    const timer = longestMs === Infinity ? undefined : setTimeout(() => {
      this.#waits.splice(this.#waits.indexOf(wait), 1);
      end();
    }, longestMs);
    // Each resolves in the same number of steps, so that they go on in the order in which they end.
    return promise.then(() => clearTimeout(timer));
  }

  /** Ends the waits that are over. */
  settle(): void {
    const oldest = this.#oldest(); // also if nothing waits: it forgets what is answered
    if (this.#waits.length === 0) return;
    const open = this.#waits.findIndex(({ upTo }) => upTo >= oldest);
    const over = this.#waits.splice(0, open === -1 ? this.#waits.length : open);
    over.sort((a, b) => a.rank - b.rank);
    for (const { end } of over) end();
  }

  /** The oldest number without an answer. */
  #oldest(): number {
    while (this.#oldestAt < this.#line.length) {
      const number = this.#line[this.#oldestAt]!;
      if (this.#numbers.has(number)) return number;
      // So that the line does not grow without end.
      if (++this.#oldestAt * 2 > this.#line.length) {
        this.#line = this.#line.slice(this.#oldestAt);
        this.#oldestAt = 0;
      }
    }
    return Infinity;
  }
}
