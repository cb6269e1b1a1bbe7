/**
 * Collects what is published on the channels.
 *
 * @module
 */
import { subscribe, tracingChannel, unsubscribe } from "node:diagnostics_channel";
import { type AcquireEvent, CHANNELS, type HoldEvent } from "../../mod.ts";

/** An event of a call or of a lease, as it was when it was published. */
export type TracedEvent = Partial<AcquireEvent> & Partial<HoldEvent>;

/** The events since {@linkcode traceEvents} was called, of all locks in this process. */
export interface TracedEvents extends Disposable {
  /** Those of a channel. `"acquire"`: as they were when the calls ended. */
  of(channel: keyof typeof CHANNELS): TracedEvent[];
  /** The channels, in the order of the events. A call counts when it ends. */
  order(): string[];
}

/** Subscribes to all channels. Disposal unsubscribes. */
export function traceEvents(): TracedEvents {
  const events: { channel: string; event: TracedEvent }[] = [];
  const ends: (() => void)[] = [];
  const { acquire: _, ...plain } = CHANNELS;
  for (const [channel, name] of Object.entries(plain)) {
    const listener = (event: unknown) => {
      events.push({ channel, event: { ...event as TracedEvent } });
    };
    subscribe(name, listener);
    ends.push(() => void unsubscribe(name, listener));
  }
  const nothing = () => {};
  const calls = tracingChannel(CHANNELS.acquire);
  const listeners = {
    start: nothing,
    end: nothing,
    asyncStart: nothing,
    error: nothing,
    asyncEnd: (event: unknown) => {
      events.push({ channel: "acquire", event: { ...event as TracedEvent } });
    },
  };
  calls.subscribe(listeners);
  ends.push(() => void calls.unsubscribe(listeners));
  return {
    of: (channel) => events.filter((each) => each.channel === channel).map(({ event }) => event),
    order: () => events.map(({ channel }) => channel),
    [Symbol.dispose]() {
      for (const end of ends) end();
    },
  };
}
