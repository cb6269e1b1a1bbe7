/**
 * Reads a snapshot of a lock's queue, for `query()`. Changes nothing on the server.
 *
 * @module
 */
import type { LockSnapshot } from "../core/distributed_lock.ts";
import { MAX_LABEL_LENGTH } from "../core/validate.ts";
import { sortedEntries } from "./recipe/order.ts";
import type { SessionRequests } from "./session/session_requests.ts";
import { hasCode } from "./transport/errors.ts";
import type { Znode } from "./transport/transport.ts";

/**
 * Reads the queue of a lock, in two round trips. Creates no znode and sets no watch.
 *
 * @param requests The requests of the session to use.
 * @param name The name of the lock.
 * @param lockPath The path of its znode.
 * @returns The holder and the waiters. The label of an entry is the data of its znode. If another tool
 * has made the znode and its data is not a short text, the entry has no label.
 * @throws {ZooKeeperError} If a request fails. A missing znode is no failure.
 */
export async function readSnapshot(
  requests: SessionRequests,
  name: string,
  lockPath: string,
): Promise<LockSnapshot> {
  const children = await orNull(requests.children(lockPath));
  const paths = sortedEntries(children?.names ?? []).map((entry) => `${lockPath}/${entry.name}`);
  const read = await Promise.all(paths.map((path) => orNull(requests.get(path))));
  const [holder, ...waiters] = read.filter((znode) => znode !== null);
  return {
    name,
    holders: holder === undefined ? [] : [{ ...labelled(holder), fencingToken: holder.czxid }],
    waiters: waiters.map(labelled),
    waiterCount: waiters.length,
  };
}

async function orNull<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (error) {
    if (hasCode(error, "NO_NODE")) return null;
    throw error;
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
