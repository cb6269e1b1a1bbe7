/**
 * Processes that take locks when a test tells them to.
 *
 * @module
 */
import type { LockSpec } from "../conformance/lock_spec.ts";
import { waitUntil } from "../servers/wait.ts";
import { startReporter } from "./child.ts";

/** How long in ms anybody may wait for what somebody does. */
const BOUND_MS = 60_000;

/** What a process works with. */
export interface PuppetOptions {
  readonly spec: LockSpec;
}

/** To take a lock. */
export interface Order {
  /** Chosen by the test. */
  readonly id: number;
  readonly name: string;
  /** How long in ms to hold the lock unless it is lost. */
  readonly holdMs: number;
}

/** What has happened to an order. */
export interface PuppetEvent {
  readonly id: number;
  /** When, in µs on a clock that all processes share. */
  readonly atUs: number;
  readonly what: "waits" | "granted" | "lost" | "leaves";
  /** The fencing token of what was granted. */
  readonly token?: string;
  /** Why the lease was lost. */
  readonly reason?: string;
}

/** A process that was started. */
export interface Puppet extends AsyncDisposable {
  readonly events: readonly PuppetEvent[];
  /** Gives an order. */
  take(order: Order): Promise<void>;
  /** Waits for something to happen to an order. */
  event(id: number, what: PuppetEvent["what"]): Promise<PuppetEvent>;
  /** Waits until all orders are carried out; resolves with the exit code. */
  finish(): Promise<number>;
}

/** Starts a process. */
export function startPuppet(options: PuppetOptions): Puppet {
  const { reports: events, send, finish, [Symbol.asyncDispose]: dispose } = startReporter<
    PuppetEvent
  >(new URL("./puppet.ts", import.meta.url), options);
  return {
    events,
    take: (order) => send(JSON.stringify(order)),
    async event(id, what) {
      const find = () => events.find((event) => event.id === id && event.what === what);
      await waitUntil(`${id} ${what}`, () => find() !== undefined, BOUND_MS);
      return find()!;
    },
    finish,
    [Symbol.asyncDispose]: dispose,
  };
}
