import { abortable } from "../../../core/time/clock.ts";
import { type ConnectionWatch, ERROR_EVENT } from "./connection_watch.ts";

/** The members of a node-redis client that the adapter uses. */
export interface NodeRedisClient {
  /** Sends a raw command. Without `timeout` it stays in the client's queue until it is sent. */
  sendCommand(args: string[], options?: object): Promise<unknown>;
  /** Listens for events of the connection. */
  on(event: string | symbol, listener: (error?: unknown) => void): unknown;
  /** Makes another client with the same settings, except these: one that subscribes. */
  duplicate(options: { socket: object }): {
    /** Connects. */
    connect(): Promise<unknown>;
    /** Subscribes to a channel, also after each reconnect. */
    subscribe(channel: string, listener: (message: string) => void): Promise<unknown>;
    /** Listens for events of the connection. */
    on(event: string, listener: () => void): unknown;
    /** Closes the connection at once. */
    destroy(): void;
    /** Whether it is connected, connecting or reconnecting. */
    readonly isOpen: boolean;
  };
  /** The options that it was made with. */
  readonly options?: { readonly socket?: object };
  /** Whether it is connected. */
  readonly isReady: boolean;
  /** Whether it is connected, connecting or reconnecting. */
  readonly isOpen?: boolean;
}

/** Events after which the connection is another one. */
const EVENTS = ["ready", "reconnecting", "end"];

export function watchClient(client: NodeRedisClient, watch: ConnectionWatch): void {
  for (const event of EVENTS) client.on(event, () => watch.changed());
  client.on(ERROR_EVENT, (error) => client.isReady || watch.failed(client, error));
  client.on("ready", () => watch.forget(client));
}

/** As `RedisClient.subscribe()`, with the settings of a client. */
export async function subscribe(
  client: NodeRedisClient,
  channel: string,
  onMessage: (message: string) => void,
  onSubscribed: () => void,
  signal: AbortSignal,
): Promise<void> {
  // No reconnecting by the client: its first attempts to connect could not be stopped.
  const socket = { ...client.options?.socket, reconnectStrategy: false };
  const subscriber = client.duplicate({ socket });
  const ended = Promise.withResolvers<void>();
  for (const event of ["error", "end"]) {
    subscriber.on(event, () => subscriber.isOpen || ended.resolve());
  }
  // Before there is a connection, `destroy()` ends nothing: the client goes on, and no longer counts as open.
  let isConnected = false;
  const close = () => {
    if (isConnected && subscriber.isOpen) subscriber.destroy();
    ended.resolve(); // the client may close without an event
  };
  subscriber.on("connect", () => {
    isConnected = true;
    if (signal.aborted) close();
  });
  signal.addEventListener("abort", close);
  try {
    // Version 5 settles neither once it was destroyed while it connected.
    await abortable(subscriber.connect(), signal);
    await abortable(subscriber.subscribe(channel, onMessage), signal);
    onSubscribed();
    await ended.promise;
  } finally {
    signal.removeEventListener("abort", close);
    close();
  }
}
