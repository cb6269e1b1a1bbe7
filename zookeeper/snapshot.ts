/**
 * What `query()` reads of a lock's queue.
 *
 * @module
 */
import { MAX_HOLDERS } from "../core/contract/call_options.ts";
import type {
  LockHolder,
  LockMode,
  LockSnapshot,
  LockWaiter,
} from "../core/contract/distributed_lock.ts";
import { MAX_LABEL_LENGTH } from "../core/contract/options.ts";
import { nullIfMissing } from "./connection/failures.ts";
import type { Znode } from "./connection/wire.ts";
import {
  countHolders,
  isSharedName,
  type QueueEntry,
  sortedEntries,
} from "./recipe/queue_order.ts";
import type { Session } from "./session/session.ts";

/**
 * Two round trips, without creating a znode or setting a watch. Of a holder whose predecessors have been deleted
 * in between, only the mode is known.
 *
 * @param maxWaiters How many waiters to read. All are counted.
 * @returns The holders and the waiters. The label of an entry is the data of its znode. If another tool
 * has made the znode and its data is not a short text, the entry has no label.
 */
export async function readSnapshot(
  session: Session,
  name: string,
  lockPath: string,
  maxWaiters: number,
): Promise<LockSnapshot> {
  const children = await session.children(lockPath).catch(nullIfMissing);
  const listed = sortedEntries(children?.names ?? []);
  const held = countHolders(listed);
  const isWanted = (i: number) => i < held ? i < MAX_HOLDERS : i < held + maxWaiters;
  const found = await Promise.all(
    listed.map(({ name }, i) =>
      isWanted(i) ? session.get(`${lockPath}/${name}`).catch(nullIfMissing) : undefined
    ),
  );
  // Those that were not read count as existing.
  const entries = listed.map((entry, i) => ({ ...entry, znode: found[i] }))
    .filter(({ znode }) => znode !== null);
  const holderCount = countHolders(entries);
  const holders = entries.slice(0, Math.min(holderCount, MAX_HOLDERS)).map(describedHolder);
  const waiters = entries.slice(holderCount).flatMap(describedWaiter).slice(0, maxWaiters);
  return { name, holders, holderCount, waiters, waiterCount: entries.length - holderCount };
}

/** An entry whose znode is `null` if it has been deleted, and left out if it was not read. */
interface ReadEntry extends QueueEntry {
  readonly znode: Znode | null | undefined;
}

function describedHolder(entry: ReadEntry): LockHolder {
  const mode = modeOf(entry);
  if (!entry.znode) return { mode };
  return { mode, ...labelled(entry.znode), fencingToken: entry.znode.czxid };
}

/** Returns nothing for an entry that was not read. */
function describedWaiter(entry: ReadEntry): LockWaiter[] {
  return entry.znode ? [{ mode: modeOf(entry), ...labelled(entry.znode) }] : [];
}

function modeOf({ name }: QueueEntry): LockMode {
  return isSharedName(name) ? "shared" : "exclusive";
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
