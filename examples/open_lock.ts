/**
 * Opens a lock of any strategy, for the demo and the examples. Your own program needs only one
 * strategy: copy what you need from `locks/`.
 *
 * @module
 */
import type { DistributedLock } from "@holdfast/lock";

/** Where the locks live. */
export type Backend =
  | { readonly kind: "file"; readonly dir?: string }
  | { readonly kind: "redis"; readonly url: string; readonly keyPrefix: string }
  | { readonly kind: "zookeeper"; readonly connectString: string; readonly rootPath: string };

/** The backend of one kind. */
export type BackendOf<K extends Backend["kind"]> = Extract<Backend, { kind: K }>;

/** A lock that is ready for use. Disposal also closes its connections. */
export interface OpenLock extends AsyncDisposable {
  readonly locks: DistributedLock;
}

/** Not literals in `import()`: users of file locks need not download the clients of servers. */
const MODULES: Record<Backend["kind"], string> = {
  file: "./locks/file.ts",
  redis: "./locks/redis.ts",
  zookeeper: "./locks/zookeeper.ts",
};

/** Redis if `REDIS_URL` is set, ZooKeeper if `ZOOKEEPER_CONNECT` is, otherwise files. */
export function chooseBackend(): Backend {
  const url = Deno.env.get("REDIS_URL");
  if (url) return { kind: "redis", url, keyPrefix: "lock:" };
  const connectString = Deno.env.get("ZOOKEEPER_CONNECT");
  if (connectString) return { kind: "zookeeper", connectString, rootPath: "/holdfast/locks" };
  return { kind: "file" };
}

/** Opens a lock. */
export async function openLock(backend: Backend): Promise<OpenLock> {
  const { open } = await import(MODULES[backend.kind]);
  return await open(backend);
}
