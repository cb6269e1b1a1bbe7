/**
 * Opens a client of any strategy from its description.
 *
 * @module
 */
import type { DistributedLock } from "../../mod.ts";
import type { LockSpec, RedisClientName } from "./lock_spec.ts";

export type { LockSpec, RedisClientName };

/** An open client. Disposal closes it with all its connections. */
export interface OpenLock extends AsyncDisposable {
  readonly lock: DistributedLock;
}

/** Opens a client. */
export async function openLock(
  spec: LockSpec,
  onWarning?: (message: string) => void,
): Promise<OpenLock> {
  const { label, disposeTimeoutMs } = spec;
  const common = { label, onWarning, disposeTimeoutMs };
  if (spec.strategy === "file") {
    const { FileLock } = await import("../../file/mod.ts");
    return owned(new FileLock({ dir: spec.dir, ...common }));
  }
  if (spec.strategy === "zookeeper") {
    const { ZooKeeperLock } = await import("../../zookeeper/mod.ts");
    const { strategy: _, connectString, ...options } = spec;
    return owned(new ZooKeeperLock(connectString, { ...options, ...common }));
  }
  const { RedisLock } = await import("../../redis/mod.ts");
  const { openRedisClient } = await import("../redis/clients.ts");
  const { client, close } = await openRedisClient(spec.client, spec.url);
  const { strategy: _, client: __, url: ___, ...options } = spec;
  const lock = new RedisLock(client, { ...options, ...common });
  return owned(lock, close);
}

function owned(lock: DistributedLock, close?: () => Promise<void>): OpenLock {
  return {
    lock,
    async [Symbol.asyncDispose]() {
      await lock[Symbol.asyncDispose]();
      await close?.();
    },
  };
}
