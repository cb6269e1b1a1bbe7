/**
 * The types of deno-redis that the README's snippets use, as that package declares them, for machines
 * that cannot load it. Nothing runs against this.
 *
 * @module
 */

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

/** Connects, in the real package. */
export declare function connect(
  options: { hostname: string; port?: number | string; maxRetryCount?: number },
): Promise<Redis>;
