/**
 * The types of deno-redis that the README's snippets use, as that package declares them, for machines
 * that cannot load it. Nothing runs against this.
 *
 * @module
 */

type RedisValue = string | number | Uint8Array;
type RedisReply = string | number | null | Uint8Array | RedisReply[];

/** A pipeline. */
export interface RedisPipeline {
  sendCommand(
    command: string,
    args?: RedisValue[],
    options?: { returnUint8Arrays?: boolean },
  ): Promise<RedisReply>;
  flush(): Promise<(RedisReply | Error)[]>;
}

/** A subscription. */
export interface RedisSubscription {
  receive(): AsyncIterableIterator<{ pattern?: string; channel: string; message: string }>;
  close(): void;
}

interface ConnectionEvents {
  error: { error: unknown };
  connect: unknown;
  reconnecting: { delay: number };
  ready: unknown;
  close: unknown;
  end: unknown;
}

/** A connection, as far as the snippets go. */
export interface Redis {
  sendCommand(command: string, args?: RedisValue[]): Promise<RedisReply>;
  pipeline(): RedisPipeline;
  subscribe(...channels: string[]): Promise<RedisSubscription>;
  addEventListener<K extends keyof ConnectionEvents>(
    type: K,
    callback: (event: CustomEvent<ConnectionEvents[K]>) => void,
    options?: AddEventListenerOptions | boolean,
  ): void;
  close(): void;
}

/** Connects, in the real package. */
export function connect(_options: { hostname: string; port?: number | string }): Promise<Redis> {
  throw new Error("This is a stand-in for type checks: load the real deno-redis");
}
