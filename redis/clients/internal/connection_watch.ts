import { errorMonitor } from "node:events";

/** For a listener that only looks on: without another one, a client still throws its errors, or prints them. */
export const ERROR_EVENT: string | symbol = errorMonitor;

const NOT_CONNECTED =
  "the client is not connected. Connect it before the first call, close it after the locks, " +
  "and do not let it give up reconnecting";

/** How often the connections of one client have changed, and why one is down, in the words of `RedisClient`. */
export class ConnectionWatch {
  epoch = 0;
  /** The last error of each connection that is down, in the order in which they came. */
  readonly #errors = new Map<object, unknown>();
  readonly #isOpen: () => boolean;

  /** @param isOpen Whether the client is connected, connects or reconnects. */
  constructor(isOpen: () => boolean) {
    this.#isOpen = isOpen;
  }

  /** Why a connection is down: the last error; `undefined` if none is down. */
  get connectionError(): unknown {
    return [...this.#errors.values()].at(-1);
  }

  /** A client that is not open, but has reported an error, could not connect: that is an outage. */
  get unusable(): string | undefined {
    return this.#isOpen() || this.#errors.size > 0 ? undefined : NOT_CONNECTED;
  }

  changed(): void {
    this.epoch++;
  }

  failed(connection: object, error: unknown): void {
    this.#errors.delete(connection);
    this.#errors.set(connection, error);
  }

  /** A connection works, or is no longer needed. */
  forget(connection: object): void {
    this.#errors.delete(connection);
  }
}
