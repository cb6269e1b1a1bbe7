import { abortable } from "../core/time/clock.ts";
import type { Owner, Terms } from "./lock_request.ts";
import { inProgress, unknownOutcome } from "./request_error.ts";

/** The PUTs under way of one service, one per lock and owner: one that is repeated for a lost response joins it. */
export class Puts {
  readonly #puts = new Map<
    string,
    Terms & {
      readonly result: Promise<object>;
      /** Aborts when all its clients have left, or the server closes. */
      readonly end: AbortController;
      clients: number;
    }
  >();
  #isClosing = false;

  /**
   * Joins the PUT of the same owner for the same lock, or starts one.
   *
   * @param gone Aborts when this client leaves, which ends its own request only.
   * @param start Starts a PUT. Its signal aborts when nobody needs the result any more.
   * @throws {RequestError} If the PUT under way has other terms, or this client has left.
   */
  async join(
    { key, ownerId }: Owner,
    terms: Terms,
    gone: AbortSignal,
    start: (ended: AbortSignal) => Promise<object>,
  ): Promise<object> {
    const id = JSON.stringify([key, ownerId]);
    // One that all clients have left ends soon.
    while (this.#puts.get(id)?.end.signal.aborted) {
      await this.#puts.get(id)?.result.catch(() => {});
    }
    if (gone.aborted || this.#isClosing) throw unknownOutcome();
    let put = this.#puts.get(id);
    if (put === undefined) {
      const end = new AbortController();
      const result = start(end.signal).finally(() => this.#puts.delete(id));
      result.catch(() => {}); // each client has a promise of its own
      this.#puts.set(id, put = { ...terms, result, end, clients: 0 });
    }
    if (put.ttlMs !== terms.ttlMs || put.waitMs !== terms.waitMs) throw inProgress();
    put.clients++;
    try {
      return await abortable(put.result, gone);
    } catch (error) {
      throw gone.aborted ? unknownOutcome() : error;
    } finally {
      if (--put.clients === 0) put.end.abort();
    }
  }

  /** Ends all PUTs that wait: the server closes. */
  close(): void {
    this.#isClosing = true;
    for (const { end } of this.#puts.values()) end.abort();
  }
}
