/**
 * The PUTs under way. A client repeats a PUT whose response it has lost: the repeated one joins the first.
 *
 * @module
 */
import { abortable } from "../core/time/clock.ts";
import type { Owner, Terms } from "./lock_request.ts";
import { inProgress, unknownOutcome } from "./request_error.ts";

/** The body of a response with status 200. Every other response is thrown as an error. */
export type Result = Readonly<Record<string, unknown>>;

/** A PUT under way. Others that ask for the same share its result. */
interface Put extends Terms {
  readonly result: Promise<Result>;
  /** Aborts when all its clients have left, or the server closes. */
  readonly end: AbortController;
  clients: number;
}

/** The PUTs under way of one service, one per lock and owner. */
export class Puts {
  readonly #puts = new Map<string, Put>();
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
    start: (ended: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const id = JSON.stringify([key, ownerId]);
    // One that all clients have left ends soon.
    while (this.#puts.get(id)?.end.signal.aborted) {
      await this.#puts.get(id)?.result.catch(() => {});
    }
    if (gone.aborted || this.#isClosing) throw unknownOutcome();
    const put = this.#puts.get(id) ?? this.#start(id, terms, start);
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

  #start(id: string, terms: Terms, start: (ended: AbortSignal) => Promise<Result>): Put {
    const end = new AbortController();
    const result = start(end.signal).finally(() => this.#puts.delete(id));
    result.catch(() => {}); // each client has a promise of its own
    const put: Put = { ...terms, result, end, clients: 0 };
    this.#puts.set(id, put);
    return put;
  }
}
