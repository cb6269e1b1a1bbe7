/**
 * Who holds a lock and who waits for it.
 *
 * @module
 */
import type { LockSnapshot } from "../core/distributed_lock.ts";
import { MAX_LABEL_LENGTH } from "../core/validate.ts";
import { inOrder } from "./recipe/order.ts";
import type { Session } from "./session/session.ts";
import { hasCode } from "./transport/errors.ts";
import type { Znode } from "./transport/transport.ts";

/**
 * Reads the queue of a lock, in two round trips. Changes nothing.
 *
 * @param session The session to ask by.
 * @param name The name of the lock.
 * @param parent The path of its znode.
 * @returns The holder and the waiters; those of other tools have a label if their data is a short text.
 */
export async function readSnapshot(
  session: Session,
  name: string,
  parent: string,
): Promise<LockSnapshot> {
  const children = await orNull(session.children(parent));
  const paths = inOrder(children?.names ?? []).map((contender) => `${parent}/${contender.name}`);
  const read = await Promise.all(paths.map((path) => orNull(session.get(path))));
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
