/**
 * Lock packages behind one interface, each with its default options.
 *
 * @module
 */
import type { Redis } from "ioredis";
import Redlock from "redlock";
import { Mutex } from "redis-semaphore";
import { createLock, IoredisAdapter } from "redlock-universal";
import { ioredis } from "../../../redis/clients/ioredis.ts";
import { RedisLock } from "../../../redis/mod.ts";
import { Redlock as OurRedlock } from "../../../redlock/mod.ts";

/** The packages that are compared. */
export const PEERS = [
  "holdfast",
  "redlock",
  "redlock, one line changed",
  "redis-semaphore",
  "redlock-universal",
] as const;

/** One of them. */
export type Peer = typeof PEERS[number];

/** The information that a package gives a holder about its lock. */
export interface Hold {
  /** Whether the package says, at this moment and without waiting, that the lock is held. */
  isMine(): boolean;
  /** Aborts when the package reports that the lock is lost. */
  readonly signal: AbortSignal;
}

/** The TTL of a lock, and how long to try to acquire it, both in ms. */
export interface PeerOptions {
  readonly ttlMs: number;
  readonly patienceMs: number;
}

/** Acquires a lock, renews it while the body runs, and releases it. */
export interface PeerLock extends AsyncDisposable {
  hold(name: string, body: (hold: Hold) => Promise<void>): Promise<void>;
}

/** The Redis key that a package uses for a name. */
export function keyOf(peer: Peer, name: string): string {
  return peer === "redis-semaphore" ? `mutex:${name}` : name;
}

/** Opens the locks of a package on a client. */
export function openPeer(peer: Peer, client: Redis, options: PeerOptions): PeerLock {
  switch (peer) {
    case "holdfast":
      return ours(client, options);
    case "redlock":
      return redlock(new Redlock([client]), options);
    case "redlock, one line changed":
      return redlock(new OurRedlock([client]), options);
    case "redis-semaphore":
      return semaphore(client, options);
    case "redlock-universal":
      return universal(client, options);
  }
}

const NOTHING = { [Symbol.asyncDispose]: () => Promise.resolve() };

function ours(client: Redis, { ttlMs, patienceMs }: PeerOptions): PeerLock {
  const lock = new RedisLock(ioredis(client), { keyPrefix: "", ttlMs });
  return {
    async hold(name, body) {
      await using lease = await lock.acquire(name, { signal: AbortSignal.timeout(patienceMs) });
      await body({ isMine: () => lease.remainingMs > 0, signal: lease.signal });
    },
    [Symbol.asyncDispose]: () => lock[Symbol.asyncDispose](),
  };
}

/** By default it tries ten times, for 2 s in total. The program is the same for the package and for ours. */
function redlock(lock: Redlock | OurRedlock, { ttlMs }: PeerOptions): PeerLock {
  lock.on("error", () => {});
  return {
    hold: (name, body) =>
      lock.using(
        [name],
        ttlMs,
        (signal: AbortSignal) => body({ isMine: () => !signal.aborted, signal }),
      ),
    ...NOTHING,
  };
}

function semaphore(client: Redis, { ttlMs, patienceMs }: PeerOptions): PeerLock {
  return {
    async hold(name, body) {
      const controller = new AbortController();
      const onLockLost = () => controller.abort();
      const options = { lockTimeout: ttlMs, acquireTimeout: patienceMs, onLockLost };
      const mutex = new Mutex(client, name, options);
      await mutex.acquire();
      try {
        await body({ isMine: () => mutex.isAcquired, signal: controller.signal });
      } finally {
        await mutex.release();
      }
    },
    ...NOTHING,
  };
}

/** By default it tries three times, for 200 ms in total. */
function universal(client: Redis, { ttlMs }: PeerOptions): PeerLock {
  const adapter = new IoredisAdapter(client);
  return {
    hold: (key, body) =>
      createLock({ adapter, key, ttl: ttlMs })
        .using((signal) => body({ isMine: () => !signal.aborted, signal })),
    ...NOTHING,
  };
}
