/**
 * Keeps a subscription: makes it again when its connection breaks.
 *
 * @module
 */
import { pause, SYSTEM_CLOCK } from "../../../core/clock.ts";

/** How long to wait in ms before a broken subscription is made again. */
const RESUBSCRIBE_MS = 100;

/** A connection that is subscribed. */
export interface Subscribed {
  /** Resolves when the connection has ended. */
  readonly ended: Promise<void>;
  /** Closes the connection; may be called twice. */
  close(): void;
}

/**
 * Subscribes, and subscribes again whenever the connection has ended.
 *
 * @param open Makes a connection and subscribes.
 * @param onGap Called after each new subscription: messages may have been lost before it.
 */
export async function keepSubscribed(
  open: () => Promise<Subscribed>,
  onGap: () => void,
): Promise<AsyncDisposable> {
  const stop = new AbortController();
  let current = await open();
  const reopen = async (): Promise<Subscribed | null> => {
    while (!stop.signal.aborted) {
      await pause(SYSTEM_CLOCK, RESUBSCRIBE_MS, stop.signal);
      if (stop.signal.aborted) break;
      const opened = await open().catch(() => null);
      if (opened !== null) return opened;
    }
    return null;
  };
  const running = (async () => {
    for (;;) {
      await current.ended;
      const next = await reopen();
      if (next === null) return;
      current = next;
      if (stop.signal.aborted) current.close();
      else onGap();
    }
  })();
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      current.close();
      await running;
    },
  };
}
