/**
 * Converts the server's answer to the snapshot that `query()` returns. Pure.
 *
 * @module
 */
import type { LockSnapshot } from "../core/contract/distributed_lock.ts";
import { isOurs, labelOfValue } from "./protocol/owner_value.ts";
import type { QueryAnswer } from "./protocol/replies.ts";

/** Makes a snapshot from the server's answer. Shows labels only: an owner id is a secret. */
export function snapshotOf(name: string, answer: QueryAnswer): LockSnapshot {
  const { value, leftMs, fencingToken, waiterCount } = answer;
  const waiters = answer.waiters.map(({ value, waitedMs }) => ({ ...labelled(value), waitedMs }));
  if (value === null) return { name, holders: [], waiters, waiterCount };
  const holder = {
    ...labelled(value),
    ...(isOurs(value) ? { fencingToken } : {}),
    ...(leftMs < 0 ? {} : { remainingMs: leftMs }),
  };
  return { name, holders: [holder], waiters, waiterCount };
}

function labelled(value: string): { label?: string } {
  const label = labelOfValue(value);
  return label === undefined ? {} : { label };
}
