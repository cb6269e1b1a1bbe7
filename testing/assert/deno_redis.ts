/**
 * The types of deno-redis that the README's snippets use, as that package declares them. They let the
 * snippets be type-checked on machines that cannot load the package; no code runs against them.
 *
 * @module
 */

type RedisValue = string | number | Uint8Array;
type RedisReply = string | number | null | Uint8Array | RedisReply[];

/** The members of a connection that the snippets use. */
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
export declare function connect(
  options: { hostname: string; port?: number | string; maxRetryCount?: number },
): Promise<Redis>;
