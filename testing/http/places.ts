/**
 * The places where the locks of the servers under test live: a Redis server or a directory.
 *
 * @module
 */
import { lockPath } from "../../file/lock_directory.ts";
import { lockKeys } from "../../redis/protocol/keys.ts";
import type { LockSpec, RedisClientName } from "../conformance/open_lock.ts";
import { keysLeft } from "../redis/residue.ts";
import { type RedisServer, startRedis } from "../servers/redis.ts";
import { RENEWED_TTL_MS, scaled } from "../time.ts";

/** A fresh place for locks. */
export interface Place extends AsyncDisposable {
  readonly spec: LockSpec;
  /** The Redis server, if there is one. */
  readonly redis?: RedisServer;
  /** Takes a lock away from its holder without notifying it. */
  lose(name: string): Promise<void>;
  /** Returns the locks, waiters and other records that are left. */
  residue(): Promise<string[]>;
}

/** Starts a Redis server for one test, which may stop it. */
export async function redisPlace(client: RedisClientName): Promise<Place> {
  const redis = await startRedis();
  const { url, command } = redis;
  return {
    spec: {
      ...{ strategy: "redis", client, url, keyPrefix: "" },
      ...{ ttlMs: RENEWED_TTL_MS, unavailableAfterMs: scaled(2_000) },
    },
    redis,
    async lose(name) {
      await command("DEL", lockKeys("", name).lock);
    },
    residue: () => keysLeft(command),
    [Symbol.asyncDispose]: () => redis[Symbol.asyncDispose](),
  };
}

/** Makes a directory for one test. */
export async function filePlace(): Promise<Place> {
  const dir = await Deno.makeTempDir({ prefix: "holdfast-test-" });
  return {
    spec: { strategy: "file", dir },
    // As a clean-up of the temporary directory would do: the next holder makes a new file.
    lose: (name) => Deno.remove(lockPath(dir, name)),
    // deno-lint-ignore require-await -- async like that of the other place
    async residue() {
      const names = Array.from(Deno.readDirSync(dir), ({ name }) => name);
      return names.filter((name) => isLocked(`${dir}/${name}`));
    },
    [Symbol.asyncDispose]: () => Deno.remove(dir, { recursive: true }),
  };
}

function isLocked(path: string): boolean {
  try {
    using file = Deno.openSync(path, { read: true, write: true });
    return !file.tryLockSync(true);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false; // deleted since the directory was read
    throw error;
  }
}
