/**
 * Adapter for deno-redis (`jsr:@db/redis`, `https://deno.land/x/redis`).
 *
 * @module
 */
import type { RedisClient } from "../client.ts";
import { refusalOf } from "../replies.ts";

/** What the adapter needs of a deno-redis connection. */
export interface DenoRedisConnection {
  /** Sends a raw command. */
  sendCommand(command: string, args?: string[]): Promise<unknown>;
  /** Closes the connection; what is under way rejects. */
  close(): void;
  /** Listens for events of the connection. */
  addEventListener?(event: "reconnecting", listener: () => void): void;
}

/**
 * Makes deno-redis usable for `RedisLock`. That client runs one command at a time, never times out and
 * repeats commands after it reconnected, so the adapter takes a *factory*: it opens a connection of
 * its own when it needs one, drops one that failed or does not answer, and closes it when the lock is
 * disposed.
 *
 * @param connect Opens a connection. Called again after a connection was dropped.
 * @returns The client as the Redis strategy sees it.
 * @throws {TypeError} If `connect` is not a function: a connection, say.
 *
 * @example Usage
 * ```ts ignore
 * import { RedisLock } from "@holdfast/lock/redis";
 * import { denoRedis } from "@holdfast/lock/redis/deno-redis";
 * import { connect } from "jsr:@db/redis";
 *
 * const client = denoRedis(() => connect({ hostname: "127.0.0.1", maxRetryCount: 2 }));
 * await using locks = new RedisLock(client);
 * ```
 */
export function denoRedis(connect: () => Promise<DenoRedisConnection>): RedisClient {
  if (typeof connect !== "function") {
    throw new TypeError("Cannot use this as a factory: pass () => connect({ … })");
  }
  let epoch = 0;
  let current: Promise<DenoRedisConnection> | null = null;

  const drop = (connection: Promise<DenoRedisConnection> | null) => {
    if (connection === null || connection !== current) return;
    current = null;
    epoch++;
    connection.then((open) => open.close()).catch(() => {}); // it may never have opened
  };

  const open = async () => {
    epoch++;
    const connection = await connect();
    connection.addEventListener?.("reconnecting", () => epoch++);
    return connection;
  };

  const send = async (command: string, args: string[]) => {
    const connection = current ??= open();
    try {
      return await (await connection).sendCommand(command, args);
    } catch (error) {
      // A refusal leaves the connection in order; after anything else it cannot be trusted.
      if (refusalOf(error) === null) drop(connection);
      throw plain(error);
    }
  };

  return {
    send,
    get epoch() {
      return epoch;
    },
    cluster: false,
    reset: () => drop(current),
    close: () => {
      drop(current);
      return Promise.resolve();
    },
  };
}

/** deno-redis leaves the protocol's leading `-` in the text of an error. */
function plain(error: unknown): unknown {
  if (!(error instanceof Error) || !error.message.startsWith("-")) return error;
  return new Error(error.message.slice(1), { cause: error });
}
