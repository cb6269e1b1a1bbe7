import type { RedisClient } from "../../client.ts";
import { adapterOf } from "./adapter.ts";
import { ConnectionWatch, ERROR_EVENT } from "./connection_watch.ts";
import { type NodeRedisClient, subscribe, watchClient } from "./node_redis_client.ts";

/** The members of a node-redis Sentinel client that the adapter uses. */
export interface NodeRedisSentinel {
  /** Sends a raw command. */
  sendCommand(isReadonly: boolean, args: string[]): Promise<unknown>;
  /** The address of the primary. */
  getMasterNode(): unknown;
  /** Waits until the primary is connected, and passes its connection to `use`. */
  _execute<T>(isReadonly: boolean, use: (primary: NodeRedisClient) => Promise<T>): Promise<T>;
  /** Listens for events of the client, and for changes of the servers. */
  on(event: string | symbol, listener: (error?: unknown) => void): unknown;
  /** Whether it is connected or connecting. */
  readonly isOpen: boolean;
}

/**
 * Adapts a Sentinel client. Commands go to the connection of the primary itself: `sendCommand()` of the
 * Sentinel client sends a command again after a lost connection without saying so, and lets a call wait
 * while others overtake it.
 */
export function adaptSentinel(sentinel: NodeRedisSentinel): RedisClient {
  const primary = new SentinelAdapter(sentinel);
  return adapterOf(primary, primary);
}

/** The connection to the primary, as far as it is known. */
class SentinelAdapter implements RedisClient {
  readonly cluster = false;
  readonly #watch: ConnectionWatch;
  readonly #sentinel: NodeRedisSentinel;
  /** Each ends a subscription. */
  readonly #subscriptions = new Set<AbortController>();
  #primary: NodeRedisClient | null = null;
  #finding: Promise<NodeRedisClient> | null = null;

  constructor(sentinel: NodeRedisSentinel) {
    this.#sentinel = sentinel;
    this.#watch = new ConnectionWatch(() => sentinel.isOpen);
    // The client has found another primary, or has made its connection anew.
    sentinel.on("topology-change", () => this.#isReady || this.#find().catch(() => {}));
    sentinel.on(ERROR_EVENT, (error) => this.#isReady || this.#watch.failed(sentinel, error));
  }

  get epoch(): number {
    return this.#watch.epoch;
  }

  get connectionError(): unknown {
    return this.#isReady ? undefined : this.#watch.connectionError;
  }

  get unusable(): string | undefined {
    return this.#watch.unusable;
  }

  readonly send = async (command: string, args: string[]): Promise<unknown> => {
    const primary = this.#isReady ? this.#primary! : await this.#find();
    try {
      return await primary.sendCommand([command].concat(args));
    } catch (error) {
      if (isReadOnly(error)) this.#find(error).catch(() => {}); // it is a replica now
      throw error;
    }
  };

  /** The subscription ends when there is another primary, too. */
  readonly subscribe = async (
    channel: string,
    onMessage: (message: string) => void,
    onSubscribed: () => void,
    signal: AbortSignal,
  ): Promise<void> => {
    if (!this.#isReady) {
      this.#find().catch(() => {});
      throw new Error("No primary is connected");
    }
    const ended = new AbortController();
    const end = () => ended.abort();
    this.#subscriptions.add(ended);
    signal.addEventListener("abort", end);
    try {
      await subscribe(this.#primary!, channel, onMessage, onSubscribed, ended.signal);
    } finally {
      this.#subscriptions.delete(ended);
      signal.removeEventListener("abort", end);
    }
  };

  get #isReady(): boolean {
    return this.#primary?.isReady === true && this.#sentinel.isOpen;
  }

  /** Waits for the connection of the primary. After its `refusal` of a write the client asks the sentinels. */
  #find(refusal?: unknown): Promise<NodeRedisClient> {
    this.#finding ??= this.#ask(refusal).finally(() => this.#finding = null);
    return this.#finding;
  }

  async #ask(refusal: unknown): Promise<NodeRedisClient> {
    if (!this.#sentinel.isOpen) throw new Error("The client is closed");
    const refused = refusal === undefined ? null : this.#primary;
    await this.#sentinel._execute(false, (primary) => {
      if (primary === refused) return Promise.reject(refusal);
      this.#adopt(primary);
      return Promise.resolve();
    });
    return this.#primary!;
  }

  #adopt(primary: NodeRedisClient): void {
    if (primary === this.#primary) return;
    if (this.#primary !== null) this.#watch.changed();
    this.#primary = primary;
    watchClient(primary, this.#watch);
    const forget = () => this.#watch.forget(this.#sentinel); // it reports the errors of the primary, too
    forget();
    primary.on("ready", forget);
    primary.on("end", () => this.#watch.forget(primary)); // the client has dropped it
    for (const subscription of this.#subscriptions) subscription.abort();
  }
}

function isReadOnly(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("READONLY");
}
