/**
 * Opens a lock of any strategy, for the demo and the examples. A program of your own needs one
 * strategy only: take what you need from `locks/`.
 *
 * @module
 */
import type { DistributedLock } from "@holdfast/lock";

/** Where the locks live. */
export type Backend =
  | { readonly kind: "file"; readonly dir?: string }
  | { readonly kind: "redis"; readonly url: string; readonly keyPrefix: string }
  | { readonly kind: "zookeeper"; readonly connectString: string; readonly rootPath: string };

/** One kind of place. */
export type BackendOf<K extends Backend["kind"]> = Extract<Backend, { kind: K }>;

/** A lock that is ready for use; its connections go with its disposal. */
export interface OpenLock extends AsyncDisposable {
  readonly locks: DistributedLock;
}

/** Not literals in `import()`: who uses files need not download the clients of the others. */
const MODULES: Record<Backend["kind"], string> = {
  file: "./locks/file.ts",
  redis: "./locks/redis.ts",
  zookeeper: "./locks/zookeeper.ts",
};

/** Redis if `REDIS_URL` is set, ZooKeeper if `ZOOKEEPER_CONNECT` is, else files in the usual place. */
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
