/** Reads that several calls share: for each path, at most one is under way, and one queued behind it. */
export class SharedReads<T> {
  readonly #reads = new Map<string, { readonly sent: Promise<T>; next: Promise<T> | null }>();

  /**
   * Joins the read that is queued behind the one under way. It is sent, by one call of `again`, after this call, and
   * so shows what was requested before. Returns `null` if no read is under way: then send one now, and add it.
   */
  join(path: string, again: () => Promise<T>): Promise<T> | null {
    const read = this.#reads.get(path);
    if (read === undefined) return null;
    const next = () => {
      this.#reads.delete(path);
      return again();
    };
    return read.next ??= read.sent.then(next, next);
  }

  add(path: string, sent: Promise<T>): Promise<T> {
    const read = {
      sent: sent.finally(() => {
        if (read.next === null) this.#reads.delete(path);
      }),
      next: null,
    };
    this.#reads.set(path, read);
    return read.sent;
  }
}
