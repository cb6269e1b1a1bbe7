/**
 * A Redis client without a server: the test answers each script, and sends the messages.
 *
 * @module
 */
import type { RedisClient } from "../../redis/mod.ts";
import { GRANTED, HELD, HOLDER_IS_OURS, QUEUED, TOO_LATE } from "../../redis/protocol/wire.ts";
import { settle } from "../core/fake_clock.ts";
import { readScript, type SentScript } from "./gated_client.ts";

/** How long in ms a holder has left: longer than any test lasts. */
const LEFT_MS = 60_000;
/** So far behind that no timer makes the waiter ask soon. */
const POSITION = 5;

/** A script that is sent and not answered. */
export interface UnansweredScript extends SentScript {
  readonly key: string;
  answer(reply: unknown): void;
  fail(error: unknown): void;
}

/** See the module. */
export class ScriptedClient implements RedisClient {
  epoch = 1;
  readonly cluster = false;
  /** In the order in which they were sent. */
  readonly unanswered: UnansweredScript[] = [];
  /** Reports to the lock that messages may have been lost. */
  gap: () => void = () => {};
  /** Passes a message to the lock. */
  publish: (text: string) => void = () => {};

  send(command: string, args: string[], key: string): Promise<unknown> {
    const sent = readScript(command, args);
    if (sent === null) return Promise.resolve("");
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.unanswered.push({ ...sent, key, answer: resolve, fail: reject });
    return promise;
  }

  subscribe(
    _channel: string,
    onMessage: (text: string) => void,
    onSubscribed: () => void,
    signal: AbortSignal,
  ): Promise<void> {
    this.publish = onMessage;
    this.gap = onSubscribed;
    onSubscribed();
    return new Promise((resolve) => signal.addEventListener("abort", () => resolve()));
  }

  /** Refuses everything until nothing more is sent. */
  async denyAll(): Promise<void> {
    for (; this.unanswered.length > 0; await settle()) {
      for (const { answer } of this.unanswered.splice(0)) answer(denied());
    }
  }

  /** How many scripts for a lock are unanswered. */
  count(name: string): number {
    return this.unanswered.filter(({ key }) => key === `lock:${name}`).length;
  }

  /** The first unanswered script for a lock. From now on it counts as answered. */
  take(name: string): UnansweredScript {
    const index = this.unanswered.findIndex(({ key }) => key === `lock:${name}`);
    if (index === -1) throw new Error(`Nothing was sent for ${name}`);
    return this.unanswered.splice(index, 1)[0]!;
  }
}

/** The reply to an ask: it is granted. */
export function granted(fencingToken: number, validMs: number = LEFT_MS): unknown[] {
  return [GRANTED, Date.now(), validMs, fencingToken];
}

/** The same: another owner holds the lock. */
export function denied(): unknown[] {
  return [HELD, Date.now(), LEFT_MS, 0];
}

/** The same: it waits, but not in the first place. */
export function queued(ticket: number): unknown[] {
  return [QUEUED, Date.now(), LEFT_MS, ticket, POSITION, POSITION, 1, HOLDER_IS_OURS];
}

/** The same: it arrived after its last moment. */
export function late(): unknown[] {
  return [TOO_LATE, Date.now()];
}
