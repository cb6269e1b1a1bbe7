/**
 * Keeps a subscription: subscribes again when its connection breaks. How to connect and subscribe is
 * up to each adapter.
 *
 * @module
 */
import { pause, SYSTEM_CLOCK } from "../../../core/time/clock.ts";

/** Pause in ms before each attempt to subscribe again. */
const RESUBSCRIBE_MS = 100;

export interface Subscribed {
  readonly ended: Promise<unknown>;
  /** Closes the connection; may be called twice. */
  close(): void;
}

/**
 * Subscribes, and subscribes again whenever the connection has ended, until the result is disposed. Only the
 * first `open()` may reject. `onGap` is called after each later one: messages may have been lost before it.
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
