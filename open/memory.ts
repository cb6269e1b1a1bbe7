import { STRATEGY_OPTIONS } from "../core/lease/lifetime.ts";
import { MemoryLock } from "../memory/memory_lock.ts";
import { bad, type LockUrl, readQuery } from "./lock_url.ts";
import type { OpenLockOptions } from "./options.ts";

/** Opens `memory:`. */
export function open(
  url: LockUrl,
  { onRenewalLate: _, ...options }: OpenLockOptions,
): MemoryLock {
  if (url.hosts.length > 0 || url.path !== "") throw bad("memory:", "has neither hosts nor a path");
  return new MemoryLock({ ...options, ...readQuery(url, STRATEGY_OPTIONS) });
}
