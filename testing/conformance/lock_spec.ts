/**
 * The description of a lock's client.
 *
 * @module
 */

/** The Redis clients under test. */
export type RedisClientName =
  | "node-redis"
  | "node-redis-cluster"
  | "ioredis"
  | "ioredis-cluster"
  | "deno-redis"
  | "deno-redis-like";

/** A description of a client. */
export type LockSpec =
  & { label?: string | undefined }
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
    }
  );
