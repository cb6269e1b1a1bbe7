/**
 * Starts processes in which many calls wait for one lock, and checks the order of the grants.
 *
 * @module
 */
import { startReporter } from "../processes/child.ts";
import { nowUs } from "../processes/machine_clock.ts";
import type { LockSpec } from "../conformance/lock_spec.ts";
import type { Signal } from "../runtime/processes.ts";
import { waitUntil } from "../servers/wait.ts";
import { LONG_BOUND_MS } from "../time.ts";

/** How long in ms a test waits for a step of thousands of calls, also on a busy machine. */
export const BOUND_MS = LONG_BOUND_MS;

/** Options of one process. */
export interface LineOptions {
  readonly spec: LockSpec;
  readonly name: string;
  readonly waiters: number;
}

/** A granted call. */
export interface LineGrant {
  readonly ownerId: string;
  readonly token: string;
  /** Whether the lease was valid when the call returned. */
  readonly isValid: boolean;
}

/** The costs of the calls to their process so far. */
export interface LineCost {
  /** The longest time in ms for which the event loop was blocked by work of the process. */
  readonly longestGapMs: number;
  /** How much memory in KB the process has gained. */
  readonly memoryKb: number;
}

/** A line that a process prints. */
export type LineReport =
  | { readonly kind: "ready" }
  /** All calls have learned that they wait, or have ended. */
  | { readonly kind: "queued"; readonly atUs: number; readonly cost: LineCost }
  | { readonly kind: "finished"; readonly cost: LineCost }
  | { readonly kind: "granted"; readonly grants: readonly LineGrant[] }
  | { readonly kind: "rejected"; readonly text: string };

/** A running process. */
export interface Line extends AsyncDisposable {
  /** How many calls it makes. */
  readonly waiters: number;
  readonly reports: readonly LineReport[];
  readonly grants: readonly LineGrant[];
  readonly rejections: readonly string[];
  /** The costs so far. */
  readonly cost: LineCost;
  /** Makes the calls. */
  go(): Promise<void>;
  kill(signal: Signal): void;
  /** Waits until all calls have ended, and for the end of the process. Returns its exit code. */
  finish(): Promise<number>;
}

/** Starts a process. Resolves when it is connected. */
export async function startLine(options: LineOptions): Promise<Line> {
  const child = startReporter<LineReport>(new URL("./line_process.ts", import.meta.url), options);
  const { reports } = child;
  const line: Line = {
    ...{ reports, waiters: options.waiters },
    get grants() {
      return reports.flatMap((report) => report.kind === "granted" ? report.grants : []);
    },
    get rejections() {
      return reports.flatMap((report) => report.kind === "rejected" ? report.text : []);
    },
    get cost() {
      return reports.flatMap((report) => "cost" in report ? report.cost : []).at(-1)!;
    },
    go: () => child.send("go"),
    kill: child.kill,
    async finish() {
      await waitUntil("all calls have ended", () => has(line, "finished"), BOUND_MS);
      return await child.finish();
    },
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  };
  await waitUntil("the process is ready", () => has(line, "ready"));
  return line;
}

function has({ reports }: Line, kind: LineReport["kind"]): boolean {
  return reports.some((report) => report.kind === kind);
}

/** Makes the calls of all processes. Returns after how many ms the last call had learned that it waits. */
export async function lineUp(lines: readonly Line[]): Promise<number> {
  const startUs = nowUs();
  await Promise.all(lines.map((line) => line.go()));
  await waitUntil("all wait", () => lines.every((line) => has(line, "queued")), BOUND_MS);
  const times = lines.flatMap(({ reports }) => {
    return reports.flatMap((report) => report.kind === "queued" ? report.atUs : []);
  });
  return (Math.max(...times) - startUs) / 1_000;
}

/**
 * How many grants came after the grant of a waiter behind them.
 *
 * @param order The owner ids of the waiters in the order of the server's queue.
 */
export function lateGrants(order: readonly string[], grants: readonly LineGrant[]): number {
  const places = new Map(order.map((ownerId, place) => [ownerId, place]));
  let latest = -1;
  let count = 0;
  for (const { ownerId } of byToken(grants)) {
    const place = places.get(ownerId) ?? -1;
    if (place < latest) count++;
    latest = Math.max(latest, place);
  }
  return count;
}

function byToken(grants: readonly LineGrant[]): LineGrant[] {
  return [...grants].sort((a, b) => BigInt(a.token) < BigInt(b.token) ? -1 : 1);
}

/** The texts of rejections, each with its number. */
export function tally(texts: readonly string[]): string {
  const groups = Map.groupBy(texts, (text) => text);
  return [...groups].map(([text, { length }]) => `${length} × ${text}`).join("; ") || "none";
}
