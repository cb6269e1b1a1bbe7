/**
 * The order in which the requests of one client become known: that of its calls, also for different names, as in
 * a browser. Answers of a network come as they come: the grant of a waiter can overtake the answer to another
 * request, and a first request for a name can take longer than the next one for another.
 *
 * So a grant waits for the answers to all requests that are under way when it comes. Then those that did not
 * have to wait begin in the order of their calls, and the others after them: a waiter's grant follows from a
 * release, which came after the requests. And a release waits until the requests for its name that were made
 * before it are answered, so that it comes after them on the service, too.
 *
 * @module
 */

/** How long in ms a grant or a release waits for answers at most: in an outage of one name the others go on. */
const MAX_DELAY_MS = 100;

/** What becomes known of one request. */
export interface RequestAnswer {
  /** It waits for its lock. */
  waits(): void;
  /** It is granted its lock, or is told that the lock is not free. Resolves when its callback may begin. */
  granted(): Promise<void>;
  /** It is over, perhaps with an error. */
  end(): void;
}

/** A grant whose callback has not begun yet. */
interface Grant {
  readonly hasWaited: boolean;
  /** The number of its request. */
  readonly number: number;
  /** The requests that it waits for. */
  readonly others: Set<number>;
  begin(): void;
}

export class RequestOrder {
  #last = 0;
  /** The requests of which nobody knows yet whether they hold the lock, wait, or have failed: their names. */
  readonly #unanswered = new Map<number, string>();
  #grants: Grant[] = [];
  readonly #snapshots = new Set<{ readonly others: Set<number>; done(): void }>();

  /** A request is sent. */
  enter(name: string): RequestAnswer {
    const number = ++this.#last;
    let hasWaited = false;
    this.#unanswered.set(number, name);
    return {
      waits: () => {
        hasWaited = true;
        this.#onAnswer(number);
      },
      granted: () => this.#granted(number, hasWaited),
      end: () => this.#onAnswer(number),
    };
  }

  /** Resolves when all requests that are under way are answered. */
  async answered(): Promise<void> {
    const others = new Set(this.#unanswered.keys());
    if (others.size === 0) return;
    await new Promise<void>((done) => this.#snapshots.add({ others, done }));
  }

  /** Resolves when the lock may be released: when the requests for its name that are under way are answered. */
  async mayRelease(name: string): Promise<void> {
    const others = new Set<number>();
    for (const [number, its] of this.#unanswered) if (its === name) others.add(number);
    if (others.size === 0) return;
    const { promise, resolve: done } = Promise.withResolvers<void>();
    const snapshot = { others, done };
    this.#snapshots.add(snapshot);
    const timer = setTimeout(done, MAX_DELAY_MS);
    await promise;
    clearTimeout(timer);
    this.#snapshots.delete(snapshot);
  }

  #granted(number: number, hasWaited: boolean): Promise<void> {
    const others = new Set(this.#unanswered.keys());
    others.delete(number);
    if (others.size === 0 && this.#grants.length === 0) {
      this.#onAnswer(number);
      return Promise.resolve();
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#grants.push({ hasWaited, number, others, begin: resolve });
    const timer = setTimeout(() => {
      others.clear();
      this.#beginReady();
    }, MAX_DELAY_MS);
    // Before it can resolve: else those that are waiting already would begin ahead of it.
    const begun = promise.then(() => clearTimeout(timer));
    this.#onAnswer(number);
    return begun;
  }

  #onAnswer(number: number): void {
    this.#unanswered.delete(number);
    for (const each of [...this.#grants, ...this.#snapshots]) each.others.delete(number);
    this.#beginReady();
    for (const snapshot of this.#snapshots) {
      if (snapshot.others.size > 0) continue;
      this.#snapshots.delete(snapshot);
      snapshot.done();
    }
  }

  #beginReady(): void {
    const ready = this.#grants.filter(({ others }) => others.size === 0);
    this.#grants = this.#grants.filter(({ others }) => others.size > 0);
    ready.sort((a, b) => Number(a.hasWaited) - Number(b.hasWaited) || a.number - b.number);
    for (const { begin } of ready) begin();
  }
}
