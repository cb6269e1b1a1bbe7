/**
 * Keeps the reservations of principals on Redis, so that all servers share them. The scripts are in
 * `scripts/`.
 *
 * @module
 */
import { SYSTEM_CLOCK, TIMED_OUT, within } from "../core/time/clock.ts";
import { duration, text } from "../core/contract/options.ts";
import type { RedisClient } from "../redis/client.ts";
import { hideCommand, isNoScript } from "../redis/protocol/failures.ts";
import type { ReservationStore, ReservedPlace, ReserveResult } from "./principal_limits.ts";
import { GIVE_BACK, RESERVE, type Script, SETTLED } from "./scripts.ts";

/** The first item of a reply when the place is reserved. */
export const RESERVED = 1;
/** The prefix of all keys. Locks cannot have it: no lock's key begins with `holdfast:`. */
const PREFIX = "holdfast:1:limits:";

/** Options of {@linkcode redisReservations}. */
export interface RedisReservationsOptions {
  /**
   * Keeps services apart that share a Redis server. Principals with the same name are then counted in
   * each service alone.
   *
   * @default {""}
   */
  keyPrefix?: string | undefined;
  /**
   * How long in ms Redis may take to answer. After that the request is refused with 503.
   *
   * @default {5000}
   */
  timeoutMs?: number | undefined;
}

/** Default of {@linkcode RedisReservationsOptions.timeoutMs}. */
export const DEFAULT_RESERVATION_TIMEOUT_MS = 5_000;

/**
 * Keeps the reservations of principals on Redis: two keys per principal and resource, in one slot of a
 * cluster, which expire with their last reservation.
 *
 * @param client A client in an adapter, as `RedisLock` takes it; it may be the same one.
 * @param options The prefix of the keys, and how long to wait for an answer.
 * @throws {TypeError|RangeError} If an option is bad.
 *
 * @example Usage
 * ```ts ignore
 * import { lockRoutes, redisReservations } from "@holdfast/lock/lock-service";
 * import { RedisLock } from "@holdfast/lock/redis";
 * import { ioredis } from "@holdfast/lock/redis/ioredis";
 * import Fastify from "fastify";
 * import { Redis } from "ioredis";
 * import { assertEquals } from "@std/assert";
 *
 * const connection = new Redis("redis://127.0.0.1:6379").on("error", console.error);
 * const client = ioredis(connection);
 * const lock = new RedisLock(client);
 * const app = Fastify();
 * await app.register(lockRoutes, {
 *   lock,
 *   authorize: () => "billing",
 *   principalLimits: { store: redisReservations(client), maxLeases: 1 },
 * });
 *
 * const put = (url: string) => app.inject({ method: "PUT", url });
 * assertEquals((await put("/lock/orders:42/9f3c")).statusCode, 200);
 * assertEquals((await put("/lock/orders:43/77aa")).statusCode, 429);
 * await app.inject({ method: "DELETE", url: "/lock/orders:42/9f3c" });
 *
 * await app.close();
 * await lock[Symbol.asyncDispose]();
 * await connection.quit();
 * ```
 */
export function redisReservations(
  client: RedisClient,
  options: RedisReservationsOptions = {},
): ReservationStore {
  const { keyPrefix = "", timeoutMs = DEFAULT_RESERVATION_TIMEOUT_MS } = options;
  if (typeof client?.send !== "function") {
    throw new TypeError(
      "Cannot keep reservations with this client: wrap it, as in nodeRedis(client)",
    );
  }
  text().check("'keyPrefix'", keyPrefix);
  duration().check("'timeoutMs'", timeoutMs);
  return new RedisReservations(client, keyPrefix, timeoutMs);
}

class RedisReservations implements ReservationStore {
  readonly #client: RedisClient;
  readonly #keyPrefix: string;
  readonly #timeoutMs: number;

  constructor(client: RedisClient, keyPrefix: string, timeoutMs: number) {
    this.#client = client;
    this.#keyPrefix = keyPrefix;
    this.#timeoutMs = timeoutMs;
  }

  async reserve(
    place: ReservedPlace,
    state: "open" | "settled",
    lifeMs: number,
    limit: number,
  ): Promise<ReserveResult> {
    const args = [place.subject, place.nonce, state, String(lifeMs), String(limit)];
    const reply = await this.#run(RESERVE, this.#keys(place), args);
    const [code, freeAfterMs] = reply as [number, number?];
    return code === RESERVED
      ? { state: "reserved" }
      : { state: "full", freeAfterMs: Number(freeAfterMs) };
  }

  async settledNonce(place: Omit<ReservedPlace, "nonce">): Promise<string | null> {
    const reply = await this.#run(SETTLED, this.#keys(place).slice(1), [place.subject]);
    return reply as string | null;
  }

  async giveBack(place: ReservedPlace): Promise<void> {
    await this.#run(GIVE_BACK, this.#keys(place), [place.subject, place.nonce]);
  }

  /** Encoded, so that no two pairs are alike, and the part in braces, the slot's tag, has no brace in it. */
  #keys({ principal, resource }: Pick<ReservedPlace, "principal" | "resource">): string[] {
    const tag = [this.#keyPrefix, principal].map(encodeURIComponent).join(":");
    return ["reservations", "marks"].map((what) => `${PREFIX}{${tag}}:${resource}:${what}`);
  }

  async #run(script: Script, keys: string[], args: string[]): Promise<unknown> {
    const answer = this.#send(script, [String(keys.length), ...keys, ...args], keys[0]!);
    const reply = await within(SYSTEM_CLOCK, answer, this.#timeoutMs).catch((error) => {
      hideCommand(error); // its arguments contain the id of the lease
      throw error;
    });
    if (reply !== TIMED_OUT) return reply;
    throw new Error(
      `Cannot reserve a place: Redis has not answered in ${this.#timeoutMs} ms. Is it running?`,
    );
  }

  async #send({ sha1, source }: Script, args: string[], key: string): Promise<unknown> {
    try {
      return await this.#client.send("EVALSHA", [sha1, ...args], key);
    } catch (error) {
      if (!isNoScript(error)) throw error;
      return await this.#client.send("EVAL", [source, ...args], key);
    }
  }
}
