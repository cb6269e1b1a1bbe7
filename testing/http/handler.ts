/**
 * What the handlers of all frameworks under test do: as their URLs say.
 *
 * @module
 */
import type { DistributedLock, Lease } from "../../mod.ts";
import type { HoldOptions } from "../../http/mod.ts";
import { nowUs } from "../processes/clock.ts";
import { pause } from "../servers/wait.ts";

/** What has happened in a handler. */
export interface HandlerEvent {
  readonly id: string;
  readonly what: "entered" | "left" | "aborted" | "cancelled";
  readonly atUs: number;
}

/** What a server under test is given. */
export interface ServerParts {
  readonly lock: DistributedLock;
  readonly gates: Gates;
  report(event: Omit<HandlerEvent, "atUs">): void;
}

/** Doors that the test opens. */
export class Gates {
  readonly #gates = new Map<string, PromiseWithResolvers<void>>();

  /** Opens a gate, for ever. */
  open(name: string): void {
    this.#of(name).resolve();
  }

  /** Waits before a gate. */
  pass(name: string): Promise<void> {
    return this.#of(name).promise;
  }

  #of(name: string): PromiseWithResolvers<void> {
    return this.#gates.getOrInsertComputed(name, () => Promise.withResolvers<void>());
  }
}

/** The route that a framework mounts, and its options. */
export interface TestRoute extends HoldOptions {
  readonly path: string;
}

/** The routes of each server: they differ in their options. */
export const ROUTES: readonly TestRoute[] = [
  { path: "/busy" },
  { path: "/locked", busyStatus: 423 },
  { path: "/patient", waitMs: 60_000, fencingHeader: "Fencing-Token" },
  { path: "/short", waitMs: 200 },
  { path: "/brief", maxHoldMs: 400 },
  { path: "/proceed", waitMs: 200, onUnavailable: "proceed" },
];

/** The key that a URL names; none without. */
export function keyOf(url: string): string | undefined {
  return new URL(url, "http://localhost").searchParams.get("key") ?? undefined;
}

/** What a handler answers. */
export type Answer = { readonly text: string } | { readonly stream: AsyncGenerator<Uint8Array> };

/** Does what the URL says: `mode` is `quick`, `gate`, `throw`, `stream`, `endless`, `heed` or `deaf`. */
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
    else await pause(2);
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

/** Begins at once; goes on when the gate opens; without a gate it never ends. */
async function* stream(
  parts: ServerParts,
  id: string,
  gate: string,
): AsyncGenerator<Uint8Array> {
  let isComplete = false;
  try {
    yield new TextEncoder().encode("first ");
    if (gate !== "") await parts.gates.pass(gate);
    else for (;; await pause(0)) yield new Uint8Array(64 * 1024).fill(120);
    yield new TextEncoder().encode("last");
    isComplete = true;
  } finally {
    parts.report({ id, what: isComplete ? "left" : "cancelled" });
  }
}
