/**
 * Adapter for deno-redis (`jsr:@db/redis`, `https://deno.land/x/redis`).
 *
 * @module
 */
import type { RedisClient } from "../client.ts";
import { keepSubscribed, type Subscribed } from "./internal/keep_subscribed.ts";

/** The members of a deno-redis connection that the adapter uses. */
export interface DenoRedisConnection {
  /** Starts a pipeline: its commands leave together. */
  pipeline(): DenoRedisPipeline;
  /** Subscribes to a channel; the connection serves nothing else from then on. */
  subscribe(channel: string): Promise<DenoRedisSubscription>;
  /** Closes the connection; unanswered commands reject. */
  close(): void;
  /** Listens for events of the connection. */
  addEventListener?(event: "reconnecting" | "ready", listener: () => void): void;
}

/** The members of a pipeline that the adapter uses. */
export interface DenoRedisPipeline {
  /** Adds a command. */
  sendCommand(command: string, args: string[]): Promise<unknown>;
  /** Sends the commands; resolves with their replies, errors among them. */
  flush(): Promise<unknown[]>;
}

/** The members of a subscription that the adapter uses. */
export interface DenoRedisSubscription {
  /** The messages. */
  receive(): AsyncIterableIterator<{ message: string }>;
}

/** A command that is sent at the end of this tick. */
interface Pending {
  readonly command: string;
  readonly args: string[];
  resolve(reply: unknown): void;
  reject(error: unknown): void;
}

/**
 * Adapts deno-redis for `RedisLock`. That client runs one command at a time, never times out, and
 * repeats commands after a reconnect. So the adapter takes a *factory* and opens its own connections
 * when it needs them, one for commands and one for messages. It drops a connection that failed or does
 * not answer, and closes both when the lock is disposed. Commands issued in one tick are sent together.
 *
 * @param connect Opens a connection. Called again after a connection was dropped.
 * @returns The client as the Redis strategy sees it.
 * @throws {TypeError} If `connect` is not a function, but a connection for example.
 *
 * @example Usage
 * ```ts ignore
 * import { RedisLock } from "@holdfast/lock/redis";
 * import { denoRedis } from "@holdfast/lock/redis/deno-redis";
 * import { connect } from "jsr:@db/redis";
 * import { assertEquals } from "@std/assert";
 *
 * const client = denoRedis(() => connect({ hostname: "127.0.0.1", port: 6379, maxRetryCount: 2 }));
 * await using locks = new RedisLock(client);
 * assertEquals(await locks.request("orders:42", () => "done"), "done");
 * ```
 */
export function denoRedis(connect: () => Promise<DenoRedisConnection>): RedisClient {
  if (typeof connect !== "function") {
    throw new TypeError(
      "Cannot use this as a factory of deno-redis connections: pass () => connect({ … })",
    );
  }
  let epoch = 0;
  let current: Promise<DenoRedisConnection> | null = null;
  let batch: Pending[] = [];

  const drop = (connection: Promise<DenoRedisConnection> | null) => {
    if (connection === null || connection !== current) return;
    current = null;
    epoch++;
    connection.then((open) => open.close()).catch(() => {}); // the connection may never have opened
  };

  const open = async () => {
    epoch++;
    const connection = await connect();
    connection.addEventListener?.("reconnecting", () => epoch++);
    return connection;
  };

  const flush = async () => {
    const commands = batch;
    batch = [];
    const connection = current ??= open();
    try {
      settle(commands, await exchange(await connection, commands));
    } catch (error) {
      drop(connection); // its later replies could belong to these commands
      for (const { reject } of commands) reject(error);
    }
  };

  return {
    send: (command, args) =>
      new Promise((resolve, reject) => {
        if (batch.push({ command, args, resolve, reject }) === 1) queueMicrotask(flush);
      }),
    subscribe: (channel, onMessage, onGap) =>
      keepSubscribed(() => subscribe(connect, channel, onMessage, onGap), onGap),
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

async function exchange(connection: DenoRedisConnection, commands: Pending[]): Promise<unknown[]> {
  const pipeline = connection.pipeline();
  for (const { command, args } of commands) pipeline.sendCommand(command, args);
  return await pipeline.flush();
}

function settle(commands: Pending[], replies: unknown[]): void {
  for (const [i, { resolve, reject }] of commands.entries()) {
    const reply = replies[i];
    if (reply instanceof Error) reject(plain(reply));
    else resolve(reply);
  }
}

/** deno-redis leaves the protocol's leading `-` in the text of an error. */
function plain(error: Error): Error {
  if (!error.message.startsWith("-")) return error;
  return new Error(error.message.slice(1), { cause: error });
}

/** Connects and subscribes once. */
async function subscribe(
  connect: () => Promise<DenoRedisConnection>,
  channel: string,
  onMessage: (message: string) => void,
  onGap: () => void,
): Promise<Subscribed> {
  const connection = await connect();
  try {
    const subscription = await connection.subscribe(channel);
    // The client reconnects and subscribes again automatically. Messages in between are lost.
    connection.addEventListener?.("ready", onGap);
    const ended = receive(subscription, onMessage).finally(() => connection.close());
    return { ended, close: () => connection.close() };
  } catch (error) {
    connection.close();
    throw error;
  }
}

/** Passes on messages until the connection has ended. */
async function receive(
  subscription: DenoRedisSubscription,
  onMessage: (message: string) => void,
): Promise<void> {
  try {
    for await (const { message } of subscription.receive()) onMessage(message);
  } catch {
    // A new connection follows.
  }
}
