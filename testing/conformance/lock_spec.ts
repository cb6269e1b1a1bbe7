/**
 * The description of a client, serialisable for other processes.
 *
 * @module
 */

import type { ZooKeeperTls } from "../../zookeeper/mod.ts";

/** The Redis clients under test. */
export type RedisClientName =
  | "node-redis"
  | "node-redis-cluster"
  | "ioredis"
  | "ioredis-cluster"
  | "deno-redis"
  | "deno-redis-like"
  | "deno-redis-like-eventless";

/** Describes a client: its strategy, where its locks are, and its options. */
export type LockSpec =
  & { label?: string | undefined; disposeTimeoutMs?: number | undefined }
  & (
    | { strategy: "file"; dir: string }
    | {
      strategy: "redis";
      client: RedisClientName;
      url: string;
      keyPrefix: string;
      ttlMs: number;
      unavailableAfterMs?: number;
    }
    | {
      strategy: "zookeeper";
      connectString: string;
      rootPath: string;
      sessionTimeoutMs: number;
      unavailableAfterMs?: number;
      tls?: ZooKeeperTls;
    }
  );
