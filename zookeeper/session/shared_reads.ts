/**
 * Makes a function that reads for several calls: for each path, at most one read is under way, and one queued behind
 * it. The function sends a read now or, if one is under way, joins the one that is queued. So the read is sent after
 * this call, and shows what was requested before.
 */
export function sharedReads<T>(): (path: string, send: () => Promise<T>) => Promise<T> {
  const reads = new Map<string, { readonly sent: Promise<T>; next: Promise<T> | null }>();
  const read = (path: string, send: () => Promise<T>): Promise<T> => {
    const underWay = reads.get(path);
    if (underWay !== undefined) {
      const next = () => {
        reads.delete(path);
        return read(path, send);
      };
      return underWay.next ??= underWay.sent.then(next, next);
    }
    const started = {
      sent: send().finally(() => {
        if (started.next === null) reads.delete(path);
      }),
      next: null,
    };
    reads.set(path, started);
    return started.sent;
  };
  return read;
}
