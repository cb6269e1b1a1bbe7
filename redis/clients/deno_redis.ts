/**
 * Adapter for deno-redis (`jsr:@db/redis`, `https://deno.land/x/redis`).
 *
 * @module
 */
import { LockSetupError } from "../../core/contract/errors.ts";
import { promiseTry } from "../../core/contract/promise_try.ts";
import type { RedisClient } from "../client.ts";
import { settledWithin, SYSTEM_CLOCK } from "../../core/time/clock.ts";
import { adapterOf } from "./internal/adapter.ts";

/** The members of a deno-redis connection that the adapter uses. */
export interface DenoRedisConnection {
  /** Starts a pipeline: its commands leave together. */
  pipeline(): {
    /** Adds a command. */
    sendCommand(command: string, args: string[]): Promise<unknown>;
    /** Sends the commands; resolves with their replies, errors among them. */
    flush(): Promise<unknown[]>;
  };
  /** Subscribes to a channel; the connection serves nothing else from then on. */
  subscribe(channel: string): Promise<{
    /** The messages. */
    receive(): AsyncIterableIterator<{ message: string }>;
  }>;
  /** Closes the connection; unanswered commands reject. */
  close(): void;
  /** Listens for events of the connection. Versions before 0.37 have none. */
  addEventListener?(
    event: "connect" | "ready" | "reconnecting" | "error" | "close" | "end",
    listener: (event: { readonly detail?: unknown }) => void,
  ): void;
}

/** How often in ms a connection is closed again whose client may open it again. */
const CLOSE_AGAIN_MS = 100;
/** Events after which the connection is another one. No version reports all of them. */
const EVENTS = ["connect", "ready", "reconnecting", "close", "end"] as const;

/** A command that is sent at the end of this tick, or after the answers to those that are under way. */
interface Pending {
  readonly command: string;
  readonly args: string[];
  resolve(reply: unknown): void;
  reject(error: unknown): void;
}

/**
 * Adapts deno-redis for `RedisLock`, for a single server: that client knows neither Cluster nor Sentinel.
 * It runs one command at a time, never times out, and repeats commands after a reconnect. So the adapter
 * takes a *factory* and opens its own connections when it needs them, one for commands and one for
 * messages. It drops a connection that failed or does not answer, and closes both when the lock is
 * disposed. Commands issued in one tick, or while others are unanswered, are sent together.
 *
 * Before version 0.37 the client does not report that it has reconnected, so any command may have been
 * executed twice. Locks work with it, but cost the server a few commands more.
 *
 * @param connect Opens a connection. Called again after a connection was dropped.
 * @throws {LockSetupError} If `connect` is not a function, but a connection for example.
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
    throw new LockSetupError(
      "Cannot use this as a factory of deno-redis connections: pass () => connect({ … })",
    );
  }
  const connections = new DenoRedisConnections(connect);
  return adapterOf(connections, connections);
}

/** The connections of one adapter. */
class DenoRedisConnections implements RedisClient {
  readonly cluster = false;
  /** The last error of the connection; `undefined` once commands are answered. Only the adapter writes it. */
  connectionError: unknown = undefined;
  readonly #connect: () => Promise<DenoRedisConnection>;
  #epoch = 0;
  #hasEvents = true;
  #current: CommandConnection | null = null;
  #batch: Pending[] = [];
  #isFlushing = false;
  /** The connections that were dropped, until they are closed. */
  readonly #closing = new Set<Promise<void>>();

  constructor(connect: () => Promise<DenoRedisConnection>) {
    this.#connect = connect;
  }

  /** Without events it may have changed at any time. */
  get epoch(): number {
    return this.#hasEvents ? this.#epoch : ++this.#epoch;
  }

  readonly send = (command: string, args: string[]): Promise<unknown> =>
    new Promise((resolve, reject) => {
      this.#batch.push({ command, args, resolve, reject });
      if (this.#isFlushing) return;
      this.#isFlushing = true;
      queueMicrotask(() => this.#flush());
    });

  readonly subscribe = async (
    channel: string,
    onMessage: (message: string) => void,
    onSubscribed: () => void,
    signal: AbortSignal,
  ): Promise<void> => {
    const connection = await this.#connect();
    const closed = Promise.withResolvers<void>();
    let receiving = Promise.resolve();
    const close = () => void closeForGood(connection, receiving).then(closed.resolve);
    signal.addEventListener("abort", close);
    try {
      signal.throwIfAborted(); // while it connected
      const subscription = await connection.subscribe(channel);
      // The client reconnects and subscribes again automatically.
      connection.addEventListener?.("ready", onSubscribed);
      receiving = receive(subscription, onMessage);
      onSubscribed();
      await Promise.race([receiving, closed.promise]);
    } finally {
      signal.removeEventListener("abort", close);
      connection.close();
    }
  };

  readonly reset = (): void => {
    const timedOut = new Error("The server does not answer in time");
    const error = this.connectionError ?? Object.assign(timedOut, { code: "ETIMEDOUT" });
    this.#drop(this.#current, error);
  };

  readonly close = async (): Promise<void> => {
    this.#drop(this.#current, new Error("Connection is closed"));
    await Promise.all(this.#closing);
  };

  #open(): CommandConnection {
    this.#epoch++;
    const opened = promiseTry(this.#connect);
    const connection = new CommandConnection(opened);
    // A failed attempt is reported by the commands that wait for it.
    opened.then((open) => this.#watch(connection, open), () => {});
    return connection;
  }

  #watch(connection: CommandConnection, opened: DenoRedisConnection): void {
    if (opened.addEventListener === undefined) this.#hasEvents = false;
    for (const event of EVENTS) opened.addEventListener?.(event, () => this.#epoch++);
    opened.addEventListener?.("error", ({ detail }) => {
      if (connection !== this.#current) return;
      this.connectionError = (detail as { error?: unknown })?.error;
    });
  }

  /** One exchange at a time. If each tick had its own, the last ones would wait for many round trips. */
  async #flush(): Promise<void> {
    while (this.#batch.length > 0) await this.#exchange(this.#batch.splice(0));
    this.#isFlushing = false;
  }

  async #exchange(commands: Pending[]): Promise<void> {
    const connection = this.#current ??= this.#open();
    try {
      settle(commands, await connection.exchange(commands));
      this.connectionError = undefined;
    } catch (error) {
      if (connection === this.#current) this.connectionError = error;
      this.#drop(connection, error); // its later replies could belong to these commands
      for (const { reject } of commands) reject(error);
    }
  }

  #drop(connection: CommandConnection | null, error: unknown): void {
    if (connection === null || connection !== this.#current) return;
    this.#current = null;
    this.#epoch++;
    for (const { reject } of this.#batch.splice(0)) reject(error);
    const closed = connection.drop(error).finally(() => this.#closing.delete(closed));
    this.#closing.add(closed);
  }
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

/** Passes on messages until the connection has ended. */
async function receive(
  subscription: Awaited<ReturnType<DenoRedisConnection["subscribe"]>>,
  onMessage: (message: string) => void,
): Promise<void> {
  try {
    for await (const { message } of subscription.receive()) onMessage(message);
  } catch {
    // The inbox subscribes again.
  }
}

/**
 * Closes a connection. A client that is reconnecting ignores this, and opens the connection again, so it is closed
 * again until `ended` settles, when the client has nothing left to do on it, and once more then.
 */
async function closeForGood(
  connection: DenoRedisConnection,
  ended: Promise<unknown>,
): Promise<void> {
  do connection.close(); while (!await settledWithin(SYSTEM_CLOCK, ended, CLOSE_AGAIN_MS));
  connection.close();
}

/** A connection for commands. It is opened at once, and used until it is dropped. */
class CommandConnection {
  readonly #opened: Promise<DenoRedisConnection>;
  readonly #rejecters = new Set<(error: unknown) => void>();
  /** The last exchange. The client runs one at a time, so it ends after all others. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(opened: Promise<DenoRedisConnection>) {
    this.#opened = opened;
  }

  /** Sends commands together. Resolves with their replies, errors among them. */
  exchange(commands: readonly { command: string; args: string[] }[]): Promise<unknown[]> {
    const replies = this.#opened.then((connection) => {
      const pipeline = connection.pipeline();
      for (const { command, args } of commands) pipeline.sendCommand(command, args);
      return pipeline.flush();
    });
    return new Promise((resolve, reject) => {
      this.#rejecters.add(reject);
      this.#last = replies.then(resolve, reject).then(() => this.#rejecters.delete(reject));
    });
  }

  /**
   * Closes the connection and rejects its exchanges. The client may still execute their commands: it
   * sends them again if it is reconnecting. Resolves when the connection is closed for good.
   */
  drop(error: unknown): Promise<void> {
    for (const reject of this.#rejecters) reject(error);
    return this.#opened.then((connection) => closeForGood(connection, this.#last), () => {});
  }
}
