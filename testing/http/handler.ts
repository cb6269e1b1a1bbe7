/**
 * The handler of all frameworks under test: it does what the URL of its request says. The servers
 * around it are in `frameworks.ts`.
 *
 * @module
 */
import { setImmediate as turn } from "node:timers/promises";
import type { DistributedLock, Lease } from "../../mod.ts";
import type { MiddlewareOptions } from "../../http/koa.ts";
import { NO_LOCK, type NoLock } from "../../http/mod.ts";
import { nowUs } from "../processes/machine_clock.ts";
import { CONDITION_BOUND_MS, scaled } from "../time.ts";

/** An event in a handler. */
export interface HandlerEvent {
  readonly id: string;
  readonly what: "keyed" | "entered" | "left" | "aborted" | "cancelled";
  readonly atUs: number;
}

/** The protocol between a server under test and its clients. */
export type Protocol = "http/1.1" | "http/2";

/** The parts that a server under test is made of. */
export interface ServerParts {
  readonly protocol: Protocol;
  readonly lock: DistributedLock;
  readonly gates: Gates;
  report(event: Omit<HandlerEvent, "atUs">): void;
}

/** Gates: a handler waits at one until the test opens it. */
export class Gates {
  readonly #gates = new Map<string, PromiseWithResolvers<void>>();

  /** Opens a gate forever. */
  open(name: string): void {
    this.#of(name).resolve();
  }

  /** Waits until a gate is open. */
  pass(name: string): Promise<void> {
    return this.#of(name).promise;
  }

  #of(name: string): PromiseWithResolvers<void> {
    return this.#gates.getOrInsertComputed(name, () => Promise.withResolvers<void>());
  }
}

/** A route that each framework serves, and its lock options. */
export interface TestRoute extends Omit<MiddlewareOptions<never>, "key"> {
  readonly path: string;
}

/** The routes of each server. They differ in their lock options. */
export const ROUTES: readonly TestRoute[] = [
  { path: "/busy" },
  { path: "/locked", busyStatus: 423 },
  { path: "/head", unlockedMethods: [] },
  { path: "/patient", waitMs: CONDITION_BOUND_MS, fencingHeader: "Fencing-Token" },
  { path: "/short", waitMs: 200 },
  { path: "/brief", maxHoldMs: scaled(400) },
  { path: "/proceed", waitMs: 200, onUnavailable: "proceed" },
];

/**
 * Returns the key in the URL's query; {@linkcode NO_LOCK} if there is none. With `late` in the query, the
 * key comes when that gate opens.
 */
export async function keyOf({ gates, report }: ServerParts, url: string): Promise<string | NoLock> {
  const { searchParams } = new URL(url, "http://localhost");
  const late = searchParams.get("late");
  if (late !== null) {
    report({ id: late, what: "keyed" });
    await gates.pass(late);
  }
  return searchParams.get("key") ?? NO_LOCK;
}

/** How many turns of the event loop a quick handler takes: time for another request to come in between. */
const QUICK_TURNS = 10;

/** The answer of a handler. */
export type Answer = { readonly text: string } | { readonly stream: AsyncGenerator<Uint8Array> };

/**
 * Does what `mode` in the URL says:
 * - `quick`: answers at once;
 * - `gate`: answers when its gate opens; `deaf` is the same, for tests of a handler that ignores a loss;
 * - `heed`: throws when the lease is lost;
 * - `throw`: throws at once;
 * - `stream`: answers with a stream whose end waits for its gate; `endless`: with one that never ends.
 */
export async function handle(
  parts: ServerParts,
  url: string,
  lease: Lease | undefined,
): Promise<Answer> {
  const query = new URL(url, "http://localhost").searchParams;
  const id = query.get("id") ?? "";
  const mode = query.get("mode") ?? "quick";
  const startUs = nowUs();
  parts.report({ id, what: "entered" });
  lease?.signal.addEventListener("abort", () => parts.report({ id, what: "aborted" }));
  if (mode === "stream" || mode === "endless") {
    return { stream: stream(parts, id, mode === "endless" ? "" : id) };
  }
  try {
    if (mode === "throw") throw new Error("The handler has failed");
    if (mode === "gate" || mode === "deaf") await parts.gates.pass(id);
    else if (mode === "heed") await heed(lease!);
    else for (let turns = 0; turns < QUICK_TURNS; turns++) await turn();
    const token = lease === undefined ? null : String(lease.fencingToken);
    return { text: JSON.stringify({ token, held: [startUs, nowUs()] }) };
  } finally {
    parts.report({ id, what: "left" });
  }
}

function heed({ signal }: Lease): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason));
  });
}

/** Sends a first chunk, and the last one when the gate opens. Without a gate it never ends. */
async function* stream(
  parts: ServerParts,
  id: string,
  gate: string,
): AsyncGenerator<Uint8Array> {
  let isComplete = false;
  try {
    yield new TextEncoder().encode("first ");
    if (gate !== "") await parts.gates.pass(gate);
    else for (;; await turn()) yield new Uint8Array(64 * 1024).fill(120);
    yield new TextEncoder().encode("last");
    isComplete = true;
  } finally {
    parts.report({ id, what: isComplete ? "left" : "cancelled" });
  }
}
