import { MAX_HOLDERS } from "../core/contract/call_options.ts";
import type { LockHolder, LockMode, LockSnapshot } from "../core/contract/distributed_lock.ts";
import { MAX_LABEL_LENGTH } from "../core/contract/options.ts";
import { nullIfMissing } from "./connection/failures.ts";
import type { Znode } from "./connection/wire.ts";
import { countHolders, isSharedName, sortedEntries } from "./recipe/queue_order.ts";
import type { Session } from "./session/session.ts";

/**
 * Reads a lock's queue for `query()` in two round trips, without creating a znode or setting a watch. All waiters are
 * counted, but no more than `maxWaiters` are read. Of a holder whose predecessors have been deleted in between, only
 * the mode is known. The label of an entry is the data of its znode; it has none if another tool has made the znode
 * and its data is not a short text.
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
  // One that has been deleted is `null`. Those that were not read count as existing.
  const entries = listed.map((entry, i) => ({ ...entry, znode: found[i] }))
    .filter(({ znode }) => znode !== null);
  const holderCount = countHolders(entries);
  const holders = entries.slice(0, Math.min(holderCount, MAX_HOLDERS))
    .map(({ name, znode }): LockHolder => {
      const mode = modeOf(name);
      return znode ? { mode, ...labelled(znode), fencingToken: znode.czxid } : { mode };
    });
  const waiters = entries.slice(holderCount)
    .flatMap(({ name, znode }) => znode ? [{ mode: modeOf(name), ...labelled(znode) }] : [])
    .slice(0, maxWaiters);
  return { name, holders, holderCount, waiters, waiterCount: entries.length - holderCount };
}

function modeOf(name: string): LockMode {
  return isSharedName(name) ? "shared" : "exclusive";
}

function labelled({ data }: Znode): { label?: string } {
  try {
    const label = new TextDecoder("utf-8", { fatal: true }).decode(data);
    return label === "" || label.length > MAX_LABEL_LENGTH ? {} : { label };
  } catch {
    return {}; // it is no text
  }
}
