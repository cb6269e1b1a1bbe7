/**
 * Services that accept connections but do not answer, and how late bounded waits are then: the same check
 * for every strategy with a server.
 *
 * @module
 */
import { assert, assertInstanceOf } from "@std/assert";
import { type DistributedLock, LockUnavailableError } from "../../mod.ts";
import type { FaultProxy } from "../servers/proxy.ts";
import { within } from "./bounds.ts";

/** How a service behind a proxy stops answering. */
export const SILENCES: Readonly<Record<string, (proxy: FaultProxy) => void>> = {
  "swallows all": (proxy) => proxy.blackHole("both"),
  "sends byte by byte": (proxy) => void (proxy.onReply = () => ({ byteEveryMs: 400 })),
};

const WAITS_MS = [0, 100, 1_000];

/** Calls all methods, with each wait. Checks that all report an outage; returns the worst lateness in ms. */
export async function worstLatenessMs(lock: DistributedLock): Promise<number> {
  const calls = WAITS_MS.flatMap((waitMs) => [
    { waitMs, run: () => lock.acquire("n", { waitMs }) },
    { waitMs, run: () => lock.tryAcquire("n", { waitMs }) },
    { waitMs, run: () => lock.request("n", { waitMs }, () => assert(false, "not granted")) },
  ]);
  const late = calls.map(async ({ waitMs, run }) => {
    const startMs = performance.now();
    const error = await run().catch((error) => error);
    assertInstanceOf(error, LockUnavailableError);
    return performance.now() - startMs - waitMs;
  });
  return Math.max(...await within("all calls end", Promise.all(late)));
}
