/**
 * Stands in for deno-redis in snippets and examples, for machines that cannot load it: the types as
 * that package declares them, over a small client that behaves as it does.
 *
 * @module
 */
import { connectLike } from "../redis/deno_redis_like.ts";

type RedisValue = string | number | Uint8Array;
type RedisReply = string | number | null | Uint8Array | RedisReply[];

/** A connection, as far as the snippets go. */
export interface Redis {
  pipeline(): {
    sendCommand(command: string, args?: RedisValue[]): Promise<RedisReply>;
    flush(): Promise<(RedisReply | Error)[]>;
  };
  subscribe(...channels: string[]): Promise<{
    receive(): AsyncIterableIterator<{ pattern?: string; channel: string; message: string }>;
    close(): void;
  }>;
  addEventListener(
    type: "error" | "connect" | "reconnecting" | "ready" | "close" | "end",
    callback: (event: CustomEvent) => void,
    options?: AddEventListenerOptions | boolean,
  ): void;
  close(): void;
}

/** Connects to a server. */
export async function connect(
  { hostname, port = 6379 }: {
    hostname: string;
    port?: number | string;
    maxRetryCount?: number;
  },
): Promise<Redis> {
  return await connectLike(`redis://${hostname}:${port}`) as Redis;
}
