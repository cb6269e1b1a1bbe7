/**
 * The process behind {@linkcode runNames}: one fresh instance that asks for many locks at once.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import process from "node:process";
import type { DistributedLock, Lease } from "../../mod.ts";
import { openLock } from "../conformance/open_lock.ts";
import { print, scriptArgument } from "../runtime/processes.ts";
import type { NamesOptions, NamesReport } from "./names.ts";

type Counts = Record<"granted" | "refused" | "lost", number>;

/** One call: releases the lock as soon as it is granted. */
async function call(ask: () => Promise<Lease | null>, counts: Counts): Promise<string | null> {
  try {
    const lease = await ask();
    if (lease === null) {
      counts.refused++;
      return null;
    }
    counts.granted++;
    if (lease.remainingMs <= 0) counts.lost++;
    if (!await lease.release()) counts.lost++;
    return null;
  } catch (error) {
    return String(error).replace(/"name\d+"/, "…");
  }
}

function asks(
  lock: DistributedLock,
  { count, method }: NamesOptions,
): (() => Promise<Lease | null>)[] {
  return Array.from({ length: count }, (_, i) => () => lock[method](`name${i}`));
}

/** The most memory that this process has used so far, in MB. */
function peakMb(): number {
  try {
    const [, kb] = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync("/proc/self/status", "utf8"))!;
    return Math.round(Number(kb) / 1_024);
  } catch {
    return Math.round(process.memoryUsage().rss / 2 ** 20); // no Linux: as much as it uses now
  }
}

async function main(options: NamesOptions): Promise<void> {
  await using client = await openLock(options.spec);
  const counts: Counts = { granted: 0, refused: 0, lost: 0 };
  const before = peakMb();
  const startMs = performance.now();
  const results = await Promise.all(asks(client.lock, options).map((ask) => call(ask, counts)));
  const seconds = (performance.now() - startMs) / 1_000;
  const rejections = results.filter((text) => text !== null);
  const memory = { beforeMb: before, peakMb: peakMb() };
  const text = rejections[0] ?? "";
  const report: NamesReport = {
    ...counts,
    rejections: rejections.length,
    text,
    seconds,
    ...memory,
  };
  print(`${JSON.stringify(report)}\n`);
}

if (import.meta.main) await main(scriptArgument());
