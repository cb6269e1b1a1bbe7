/**
 * Makes the reservations of requests: each request reserves a place before it asks for the lock, and then
 * settles it or gives it back. Where reservations are kept: `principal_limits.ts`.
 *
 * @module
 */
import type { Owner } from "./lock_request.ts";
import type { PrincipalLimits, ReservedPlace } from "./principal_limits.ts";
import { type RequestError, tooMany, unknownOutcome } from "./request_error.ts";

/** How long in ms a request may take besides its wait. A reservation lasts longer than that. */
const REQUEST_MS = 10_000;
/** How long in ms to wait before a retry when no reservation will end. */
const UNKNOWN_FREE_MS = 1_000;

/** The reservation of one request. */
export interface Reservation {
  /** Whether it has ended by this process's clock, so that nobody can still count on it. */
  readonly isOver: boolean;
  /**
   * Keeps the reservation for what the request has got.
   *
   * @param lifeMs How long in ms that lasts.
   * @returns The error for a request that was so slow that its reservation ended, and the place is taken.
   */
  settle(lifeMs: number): Promise<RequestError | null>;
  /** The request has got nothing. */
  giveBack(): Promise<void>;
  /** It is not known what the request has got, which lasts for `lifeMs` at most. */
  leave(lifeMs: number): Promise<void>;
}

/** Nothing is reserved as there is no limit. */
const UNLIMITED: Reservation = {
  isOver: false,
  // deno-lint-ignore require-await -- async like the other reservations
  settle: async () => null,
  giveBack: async () => {},
  leave: async () => {},
};

/** Reserves places for the requests of all principals. */
export class Reservations {
  readonly #limits: PrincipalLimits | undefined;
  readonly #retryAfterMs: number | undefined;
  readonly #report: (error: unknown) => void;

  readonly #requestMs: number;

  /** @param requestMs Tests pass in another time than {@linkcode REQUEST_MS}. */
  constructor(
    limits: PrincipalLimits | undefined,
    retryAfterMs: number | undefined,
    report: (error: unknown) => void,
    requestMs: number = REQUEST_MS,
  ) {
    this.#requestMs = requestMs;
    this.#limits = limits;
    this.#retryAfterMs = retryAfterMs;
    this.#report = report;
  }

  /**
   * Reserves a lease. Requests of the same owner for the same lock share the reservation.
   *
   * @param lifeMs How long in ms the request may wait, and its lease may last.
   * @throws {RequestError} 429 if the principal has too many, 503 if that is not known.
   */
  async forLease(owner: Owner, lifeMs: number): Promise<Reservation> {
    return await this.#reserve(placeOf(owner), lifeMs);
  }

  /** Reserves a wait of at most `waitMs`. */
  async forWait({ principal }: Owner, waitMs: number): Promise<Reservation> {
    const nonce = crypto.randomUUID();
    const place: ReservedPlace = { principal, resource: "waiters", subject: nonce, nonce };
    return await this.#reserve(place, waitMs);
  }

  /**
   * Returns what earlier requests have reserved for a lease, to be given back after its release. If that
   * is not known, the reservation ends by its expiry.
   */
  async ofLease(owner: Owner): Promise<Reservation> {
    const limit = this.#limits?.maxLeases;
    if (this.#limits === undefined || limit === undefined) return UNLIMITED;
    const { store } = this.#limits;
    const place = placeOf(owner);
    try {
      const nonce = await store.settledNonce(place);
      return nonce === null ? UNLIMITED : this.#reservation({ ...place, nonce }, limit, 0);
    } catch (error) {
      this.#report(error);
      return UNLIMITED;
    }
  }

  async #reserve(place: ReservedPlace, lifeMs: number): Promise<Reservation> {
    const limit = place.resource === "leases" ? this.#limits?.maxLeases : this.#limits?.maxWaiters;
    if (limit === undefined) return UNLIMITED;
    const endMs = performance.now() + lifeMs + this.#requestMs;
    const refusal = await this.#ask(place, "open", lifeMs + this.#requestMs, limit);
    if (refusal !== null) throw refusal;
    return this.#reservation(place, limit, endMs);
  }

  /** Asks the store. Without an answer the request is refused: it must not be unlimited. */
  async #ask(
    place: ReservedPlace,
    state: "open" | "settled",
    lifeMs: number,
    limit: number,
  ): Promise<RequestError | null> {
    const result = await this.#limits!.store.reserve(place, state, lifeMs, limit)
      .catch((error) => {
        throw unknownOutcome(error);
      });
    if (result.state === "reserved") return null;
    return tooMany(place.resource, this.#retryAfterMs ?? (result.freeAfterMs || UNKNOWN_FREE_MS));
  }

  #reservation(place: ReservedPlace, limit: number, endMs: number): Reservation {
    const quietly = (done: Promise<unknown>) => done.then(() => {}, this.#report);
    return {
      get isOver() {
        return performance.now() > endMs;
      },
      settle: (lifeMs) => this.#ask(place, "settled", lifeMs, limit),
      giveBack: () => quietly(this.#limits!.store.giveBack(place)),
      leave: (lifeMs) => quietly(this.#ask(place, "open", lifeMs + this.#requestMs, limit)),
    };
  }
}

/** The subject is the id and the name of the lock: an id has no space in it. */
function placeOf({ principal, id, key }: Owner): ReservedPlace {
  return { principal, resource: "leases", subject: `${id} ${key}`, nonce: crypto.randomUUID() };
}
