import { describe, flag, type OptionTable, readTable, text } from "../core/contract/options.ts";
import type { RedisClient } from "../redis/client.ts";
import { FENCED } from "./scripts.ts";
import { checkToken, type FenceStore, StaleTokenError } from "./fences.ts";

/** The longest command, in words. Lua's stack has room for few more. */
const MAX_WORDS = 7_000;
/** The first item of a reply: the token was not stale, so that the command, if any, was run; or it was. */
export const DONE = 1;
const STALE = 0;

/**
 * Runs Redis commands under a fencing token. The server compares the token with the greatest
 * one so far and runs the command in one step. The greatest token of a resource is kept in a
 * key without a TTL. The client may be the one that the locks use, or another one.
 *
 * @example A stale token
 * ```ts ignore
 * import { fencedRedis, StaleTokenError } from "@holdfast/lock/fencing";
 * import { ioredis } from "@holdfast/lock/redis/ioredis";
 * import { Redis } from "ioredis";
 * import { assertEquals, assertRejects } from "@std/assert";
 *
 * const client = new Redis("redis://127.0.0.1:6379").on("error", console.error);
 * const fenced = fencedRedis(ioredis(client));
 * await fenced.run("orders:42", 7n, ["SET", "orders:42:state", "shipped"]);
 * const late = () => fenced.run("orders:42", 6n, ["SET", "orders:42:state", "lost"]);
 * await assertRejects(late, StaleTokenError);
 * assertEquals(await client.get("orders:42:state"), "shipped");
 * client.disconnect();
 * ```
 */
export class FencedRedis implements FenceStore {
  readonly #client: RedisClient;
  readonly #keyPrefix: string;
  readonly #raises: boolean;

  /** Makes what {@linkcode fencedRedis} returns. */
  constructor(client: RedisClient, keyPrefix: string, raises: boolean) {
    this.#client = client;
    this.#keyPrefix = keyPrefix;
    this.#raises = raises;
  }

  /**
   * Runs a command, unless a greater token was seen. The token is remembered even if the command then fails, but
   * not with `raise: false`. A command that the client sends again after a reconnect may run twice, like any other.
   *
   * @param resource The resource that the token is for. In Redis Cluster it must have the hash tag of the keys.
   * @param command The command and its arguments, one word each: `["SET", "key", "value"]`.
   * @param keys The keys that the command uses; only needed for Redis Cluster.
   * @returns The reply of the command.
   * @throws {StaleTokenError} If a greater token was seen. Nothing was written then.
   * @throws {RangeError} If the token is negative or needs more than 63 bits, or the command has over 7,000 words.
   * @throws {TypeError} If the resource is not text, the token not a bigint, or the command empty.
   * @throws {Error} The client's error, if the command fails or Redis cannot be reached; also if the reply is
   * none of the script's. Then the command may have run.
   */
  async run(
    resource: string,
    token: bigint,
    command: readonly string[],
    keys: readonly string[] = [],
  ): Promise<unknown> {
    if (command.length === 0) {
      throw new TypeError(
        'Cannot run an empty command: pass its words, as in ["SET", "key", "value"]',
      );
    }
    if (command.length > MAX_WORDS) {
      throw new RangeError(
        `Cannot run a command of ${command.length} words: ` +
          `split it into commands of at most ${MAX_WORDS}`,
      );
    }
    const action = this.#raises ? "raise" : "check";
    const { isDone, reply } = await this.#send(resource, token, action, command, keys);
    if (isDone) return reply ?? null;
    throw new StaleTokenError(resource, token);
  }

  /**
   * Remembers a token without running a command; `false` if a greater one was seen. See {@linkcode FenceStore.raise}.
   *
   * @throws {TypeError} If the resource is not a string, or the token not a bigint.
   * @throws {RangeError} If the token is negative or needs more than 63 bits.
   * @throws {Error} The client's error, if Redis cannot be reached; also if the reply is none of the script's.
   */
  async raise(resource: string, token: bigint): Promise<boolean> {
    return (await this.#send(resource, token, "raise")).isDone;
  }

  /**
   * Compares a token with the greatest one, without remembering it: returns `false` if it is less. See
   * {@linkcode FenceStore.check}.
   *
   * @throws {TypeError} If the resource is not a string, or the token not a bigint.
   * @throws {RangeError} If the token is negative or needs more than 63 bits.
   * @throws {Error} The client's error, if Redis cannot be reached; also if the reply is none of the script's.
   */
  async check(resource: string, token: bigint): Promise<boolean> {
    return (await this.#send(resource, token, "check")).isDone;
  }

  async #send(
    resource: string,
    token: bigint,
    action: "raise" | "check",
    command: readonly string[] = [],
    keys: readonly string[] = [],
  ): Promise<{ readonly isDone: boolean; readonly reply: unknown }> {
    RESOURCE.check("the resource", resource);
    checkToken(token);
    const fence = this.#keyPrefix + resource;
    const count = String(1 + keys.length);
    const args = [FENCED.sha1, count, fence, ...keys, String(token), action, ...command];
    const answer = await this.#client.send("EVALSHA", args, fence).catch((error) => {
      if (!/^-?NOSCRIPT\b/.test(String((error as Error)?.message))) throw error;
      return this.#client.send("EVAL", args.with(0, FENCED.source), fence);
    });
    const [state, reply] = Array.isArray(answer) ? answer : [];
    // Some clients are set up to return integers as strings. What is neither must not pass for a stale token.
    if (![DONE, STALE].includes(Number(state ?? NaN))) {
      throw new Error(`Unexpected reply to a fenced command: ${describe(answer)}`);
    }
    return { isDone: Number(state) === DONE, reply };
  }
}

/** Options of {@linkcode fencedRedis}. */
export interface FencedRedisOptions {
  /**
   * The prefix of the keys that hold the greatest tokens.
   *
   * @default {"fence:"}
   */
  keyPrefix?: string;
  /**
   * Whether `run()` remembers the token. With `false` it only compares it: for shared leases, of which the
   * one with the greatest token must not lock out the others.
   *
   * @default {true}
   */
  raise?: boolean;
}

const RESOURCE = text({ max: Infinity });
const FENCED_REDIS_OPTIONS = {
  keyPrefix: text({}, "fence:"),
  raise: flag(true),
} satisfies OptionTable<FencedRedisOptions>;

/**
 * Wraps a Redis client so that commands run under a fencing token, and are rejected if it is stale.
 *
 * @param client A client in an adapter, as `RedisLock` takes it.
 * @param options The prefix of the keys, and whether tokens are remembered.
 * @throws {TypeError} If the client is not in an adapter, or an option has a wrong type or is unknown.
 *
 * @example Usage
 * ```ts ignore
 * import { fencedRedis } from "@holdfast/lock/fencing";
 * import { RedisLock } from "@holdfast/lock/redis";
 * import { nodeRedis } from "@holdfast/lock/redis/node-redis";
 * import { createClient } from "redis";
 * import { assertEquals } from "@std/assert";
 *
 * const client = await createClient({ url: "redis://127.0.0.1:6379" })
 *   .on("error", console.error).connect();
 * const fenced = fencedRedis(nodeRedis(client));
 * {
 *   await using locks = new RedisLock(nodeRedis(client));
 *   await locks.request("orders:42", async (lease) => {
 *     await fenced.run("orders:42", lease.fencingToken, ["SET", "orders:42:state", "shipped"]);
 *   });
 * }
 * assertEquals(await client.get("orders:42:state"), "shipped");
 * client.destroy();
 * ```
 */
export function fencedRedis(
  client: RedisClient,
  options: FencedRedisOptions = {},
): FencedRedis {
  if (typeof client?.send !== "function") {
    throw new TypeError(
      "Cannot use this Redis client: pass an adapter, as in fencedRedis(nodeRedis(client))",
    );
  }
  const { keyPrefix, raise } = readTable("fencedRedis()", options, FENCED_REDIS_OPTIONS);
  return new FencedRedis(client, keyPrefix, raise);
}
