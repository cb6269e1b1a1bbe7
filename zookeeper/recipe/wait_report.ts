/**
 * The reports of a waiter's place in the queue to its caller.
 *
 * @module
 */
import type { WaitInfo } from "../../core/contract/distributed_lock.ts";
import type { QueueSize } from "./shared_queues.ts";

/** Returns the position of an entry in a queue whose length was read after its create. */
export function positionIn({ childCount, createCount }: QueueSize, sequence: number): WaitInfo {
  // All that were created before our znode are before it, unless they were deleted.
  const behind = createCount - 1 - sequence;
  return { position: Math.max(1, childCount - 1 - behind), waiters: Math.max(1, childCount - 1) };
}

/** Makes a function that reports each position once. */
export function reporter(onWait: ((info: WaitInfo) => void) | undefined): (info: WaitInfo) => void {
  let reported: number | undefined = 0;
  return (info) => {
    if (info.position !== reported) onWait?.(info);
    reported = info.position;
  };
}
