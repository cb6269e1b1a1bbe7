/**
 * Starts processes that take locks on the order of a test.
 *
 * @module
 */
import type { LockSpec } from "../conformance/lock_spec.ts";
import { waitUntil } from "../servers/wait.ts";
import { startReporter } from "./child.ts";

/** Options of a process. */
export interface PuppetOptions {
  readonly spec: LockSpec;
}

/** An order to take a lock. */
export interface Order {
  /** Chosen by the test. */
  readonly id: number;
  readonly name: string;
  /** How long in ms to hold the lock unless it is lost. */
  readonly holdMs: number;
}

/** A step in the life of an order. */
export interface PuppetEvent {
  readonly id: number;
  /** When it happened, in µs on a clock that all processes share. */
  readonly atUs: number;
  readonly what: "waits" | "granted" | "lost" | "leaves";
  /** The fencing token of the lease, if it was granted. */
  readonly token?: string;
  /** Why the lease was lost. */
  readonly reason?: string;
}

/** A process that takes orders. */
export interface Puppet extends AsyncDisposable {
  readonly events: readonly PuppetEvent[];
  /** Gives an order. */
  take(order: Order): Promise<void>;
  /** Waits for an event of an order. */
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
      await waitUntil(`${id} ${what}`, () => find() !== undefined);
      return find()!;
    },
    finish,
    [Symbol.asyncDispose]: dispose,
  };
}
