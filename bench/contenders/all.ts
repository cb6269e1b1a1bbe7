/**
 * All contenders.
 *
 * @module
 */
import { type ClientName, type Contender, idOf } from "../library/contender.ts";
import { flock } from "./flock.ts";
import { holdfast } from "./holdfast.ts";
import { holdfastFiles } from "./holdfast_files.ts";
import { properLockfile } from "./proper_lockfile.ts";
import { raw } from "./raw.ts";
import { redisSemaphore } from "./redis_semaphore.ts";
import { redlock } from "./redlock.ts";
import { redlockUniversal } from "./redlock_universal.ts";

/** The Redis clients, the one with most contenders first. */
export const CLIENTS: readonly ClientName[] = ["ioredis", "node-redis"];

/** The locks. */
export const LOCKS: readonly Contender[] = [
  ...CLIENTS.map(holdfast),
  redlock,
  redisSemaphore,
  ...CLIENTS.map(redlockUniversal),
];

/** The bare commands, and the locks. */
export const CONTENDERS: readonly Contender[] = [...CLIENTS.map(raw), ...LOCKS];

/** The locks on files. */
export const FILE_LOCKS: readonly Contender[] = [holdfastFiles, properLockfile, flock];

/** The settings of all contenders. Of the peers' polls, 5 ms is the one with the most grants. */
export const SETTINGS = { ttlMs: 10_000, pollMs: 5 } as const;

/** The contender with a key. */
export function contenderOf(id: string): Contender {
  const found = [...CONTENDERS, ...FILE_LOCKS].find((contender) => idOf(contender) === id);
  if (found === undefined) throw new RangeError(`Cannot find the contender "${id}"`);
  return found;
}
