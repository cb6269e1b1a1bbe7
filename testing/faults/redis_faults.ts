/**
 * Faults of a Redis server.
 *
 * @module
 */
// Paces a workload: each fault of a server lasts for a random time.
import { rm } from "node:fs/promises";
import type { FaultProxy } from "../servers/proxy.ts";
import type { RedisServer } from "../servers/redis.ts";
import { pause, waitUntil } from "../servers/wait.ts";
import type { Fault, FaultOutcome, Stage } from "./place.ts";
import type { WallClock } from "./wall_clock.ts";

/** A master and its replica, as far as faults need them. */
export interface RedisServers {
  readonly master: RedisServer;
  readonly replica: RedisServer;
  /** The link from the replica to its master. */
  readonly link: FaultProxy;
  /** The wall clock of both; null if it cannot be set. */
  readonly clock: WallClock | null;
  /** Steps the wall clock of both. */
  step(aheadMs: number): void;
  /** Notes a loss of data at this moment; true if tokens may decrease because of it. */
  lose(): boolean;
  /** Whether data were lost within the last 10 s: some locks may not have been granted since. */
  readonly hasJustLost: boolean;
  /** Promotes the replica to master. */
  swap(): Promise<void>;
  /** Makes the replica follow the master, and waits until it has all data. */
  follow(): Promise<void>;
}

/** One kind of fault of the servers. */
export interface RedisFault extends Omit<Fault, "run"> {
  run(pair: RedisServers, stage: Stage): Promise<FaultOutcome>;
}

type RedisFaults = Readonly<Record<string, RedisFault>>;

const MASTER = { target: "redis" };
/** The key prefix of the workers' locks. */
export const LOCK_PREFIX = "lock:";

/** A fault that loses data; only afterwards is it known whether tokens may decrease. */
function losing(run: (pair: RedisServers, stage: Stage) => Promise<unknown>): RedisFault {
  return {
    destructive: true,
    async run(pair, stage) {
      const before = pair.lose();
      await run(pair, stage);
      return { ...MASTER, tokensMayRepeat: pair.lose() || before };
    },
  };
}

/** Faults of the servers. */
export const REDIS_FAULTS: RedisFaults = {
  "client-kill": {
    async run({ master }, { pick }) {
      const type = pick(["normal", "pubsub"]);
      await master.command("CLIENT", "KILL", "TYPE", type, "SKIPME", "yes");
      return MASTER;
    },
  },
  "script-flush": {
    async run({ master }) {
      await master.command("SCRIPT", "FLUSH");
      return MASTER;
    },
  },
  "lock-deleted": {
    destructive: true, // the holders are not told
    async run({ master }, { pick }) {
      const held = await master.command("KEYS", `${LOCK_PREFIX}*`) as string[];
      if (held.length === 0) return { ...MASTER, names: [] };
      const key = pick(held);
      await master.command("DEL", key);
      return { ...MASTER, names: [key.slice(LOCK_PREFIX.length)] };
    },
  },
  "flushall": losing(({ master }) => master.command("FLUSHALL")),
  "memory-full": {
    async run({ master }, { random }) {
      await master.command("CONFIG", "SET", "maxmemory", 1);
      await pause(random() * 300);
      await master.command("CONFIG", "SET", "maxmemory", 0);
      return MASTER;
    },
  },
  "eviction": losing(async ({ master }, { random }) => {
    // One setting at a time: Redis before 7.0 takes no more.
    await master.command("CONFIG", "SET", "maxmemory-policy", "allkeys-random");
    await master.command("CONFIG", "SET", "maxmemory", 1);
    await pause(random() * 100);
    await master.command("CONFIG", "SET", "maxmemory", 0);
    await master.command("CONFIG", "SET", "maxmemory-policy", "noeviction");
  }),
  "server-freeze": {
    async run({ master }, { place, random }) {
      await master.pause();
      await pause(random() * place.ttlMs * 1.5);
      await master.resume();
      return MASTER;
    },
  },
  "restart": {
    async run({ master }) {
      await master.restart();
      return MASTER;
    },
  },
  "restart-empty": losing(async ({ master }) => {
    const [, directory] = await master.command("CONFIG", "GET", "dir") as string[];
    await master.kill();
    // A folder, but one file before Redis 7.0.
    for (const name of ["appendonlydir", "appendonly.aof"]) {
      await rm(`${directory}/${name}`, { recursive: true, force: true });
    }
    await master.restart();
  }),
  "failover": losing(async (pair, { random }) => {
    const { master, link } = pair;
    await waitUntil("the replica follows", async () => {
      const info = String(await pair.replica.command("INFO", "replication"));
      return info.includes("master_link_status:up");
    });
    link.blackHole("both"); // The replica misses all writes from now on.
    await pause(random() * 200);
    await master.kill();
    await pair.swap();
    await master.restart();
    await pair.follow();
  }),
};

/** Faults of servers whose wall clock can be set. */
export const REDIS_CLOCK_FAULTS: RedisFaults = {
  "server-clock": {
    destructive: true,
    async run(pair, { random }) {
      const wasAheadMs = pair.clock!.aheadMs;
      const aheadMs = (random() - 0.5) * 6_000;
      pair.step(aheadMs);
      await pause(100);
      return { ...MASTER, tokensMayRepeat: aheadMs < wasAheadMs && pair.hasJustLost };
    },
  },
};
