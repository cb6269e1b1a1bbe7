/**
 * The port for limits per principal: where reservations are kept. `redis_limits.ts` keeps them on Redis,
 * `reservations.ts` makes them for the requests of the lock service.
 *
 * @module
 */
import { count, describe } from "../core/contract/options.ts";

/** The things of which a principal has a limited number. */
export type LimitedResource = "leases" | "waiters";

/**
 * One request's part in a reservation. Requests with the same principal, resource and subject share a
 * reservation, which counts once.
 */
export interface ReservedPlace {
  /** The principal, as `authorize` has returned it. */
  readonly principal: string;
  /** The thing that is reserved. */
  readonly resource: LimitedResource;
  /** Names the lease, or the waiting request, that the reservation is for. */
  readonly subject: string;
  /** Names the request. No two requests have the same one. */
  readonly nonce: string;
}

/** The outcome of a reservation. */
export type ReserveResult =
  | { readonly state: "reserved" }
  /** The principal has reached its limit. `freeAfterMs` is how long its next reservation still lasts. */
  | { readonly state: "full"; readonly freeAfterMs: number };

/**
 * Keeps reservations, for all servers of a service. Each method is one atomic step. A command may be
 * executed twice or late: it must not free what another request has reserved.
 */
export interface ReservationStore {
  /**
   * Reserves a place, or renews it, if the principal stays within the limit. With a lifetime, as the
   * process may be killed.
   *
   * @param place The request and what it reserves.
   * @param state `"open"` while it is not known whether the request gets what it asks for, `"settled"`
   * once it has got it. Later settled requests of a reservation replace earlier ones, and never shorten it.
   * @param lifeMs How long in ms the reservation lasts from now.
   * @param limit The limit of the principal.
   * @throws If the store does not answer: the request is refused then.
   */
  reserve(
    place: ReservedPlace,
    state: "open" | "settled",
    lifeMs: number,
    limit: number,
  ): Promise<ReserveResult>;
  /** Returns the nonce of the settled request of a reservation; `null` if there is none. */
  settledNonce(place: Omit<ReservedPlace, "nonce">): Promise<string | null>;
  /** Gives back the part of one request. The reservation ends unless others share it. */
  giveBack(place: ReservedPlace): Promise<void>;
}

/** The limits of each principal, across all servers with the same store. */
export interface PrincipalLimits {
  /** Where reservations are kept: {@linkcode redisReservations}. */
  readonly store: ReservationStore;
  /**
   * How many leases a principal may have. A `PUT` that waits counts, since it may be granted its lease at
   * any moment.
   *
   * @default no limit
   */
  readonly maxLeases?: number | undefined;
  /**
   * How many requests of a principal may wait.
   *
   * @default no limit
   */
  readonly maxWaiters?: number | undefined;
}

/**
 * Checks the limits.
 *
 * @throws {TypeError} If a part has a wrong type.
 * @throws {RangeError} If a limit is not a whole number from 0.
 */
export function checkPrincipalLimits(given: unknown): asserts given is PrincipalLimits {
  if (typeof given !== "object" || given === null) {
    throw new TypeError(
      `Cannot use 'principalLimits': it must be an object, but it is ${describe(given)}`,
    );
  }
  const { store, maxLeases, maxWaiters, ...others } = given as PrincipalLimits;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) {
    throw new TypeError(
      `Cannot use 'principalLimits': there is no option '${unknown}', only 'store', 'maxLeases' ` +
        "and 'maxWaiters'",
    );
  }
  if (typeof store?.reserve !== "function") {
    throw new TypeError(
      "Cannot use 'principalLimits' without a 'store': redisReservations() makes one",
    );
  }
  if (maxLeases !== undefined) count().check("'maxLeases'", maxLeases);
  if (maxWaiters !== undefined) count().check("'maxWaiters'", maxWaiters);
}
