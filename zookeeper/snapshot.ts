/**
 * What `query()` reads of a lock's queue.
 *
 * @module
 */
import type { LockSnapshot } from "../core/contract/distributed_lock.ts";
import { MAX_LABEL_LENGTH } from "../core/contract/options.ts";
import { nullIfMissing } from "./connection/failures.ts";
import type { Znode } from "./connection/wire.ts";
import { sortedEntries } from "./recipe/queue_order.ts";
import type { Session } from "./session/session.ts";

/**
 * Two round trips, without creating a znode or setting a watch. If all entries that were to be read have been
 * deleted meanwhile, it reads again.
 *
 * @param maxWaiters How many waiters to read. All are counted.
 * @returns The holder and the waiters. The label of an entry is the data of its znode. If another tool
 * has made the znode and its data is not a short text, the entry has no label.
 */
export async function readSnapshot(
  session: Session,
  name: string,
  lockPath: string,
  maxWaiters: number,
): Promise<LockSnapshot> {
  for (;;) {
    const children = await session.children(lockPath).catch(nullIfMissing);
    const entries = sortedEntries(children?.names ?? []);
    const paths = entries.slice(0, 1 + maxWaiters).map((entry) => `${lockPath}/${entry.name}`);
    const found = await Promise.all(paths.map((path) => session.get(path).catch(nullIfMissing)));
    const [holder, ...waiters] = found.filter((znode) => znode !== null);
    if (holder === undefined && entries.length > paths.length) continue;
    return {
      name,
      holders: holder === undefined
        ? []
        : [{ mode: "exclusive", ...labelled(holder), fencingToken: holder.czxid }],
      holderCount: holder === undefined ? 0 : 1,
      waiters: waiters.map(labelled),
      waiterCount: waiters.length + entries.length - paths.length,
    };
  }
}

function labelled({ data }: Znode): { label?: string } {
  const label = textOf(data);
  return label === "" || label.length > MAX_LABEL_LENGTH ? {} : { label };
}

function textOf(data: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(data);
  } catch {
    return "";
  }
}
