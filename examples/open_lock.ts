/**
 * Opens a lock of the strategy that the demo shows. A program of your own needs one strategy only:
 * take what you need from `locks/`.
 *
 * @module
 */
import type { DistributedLock } from "@holdfast/lock";

/** Where the locks live. */
export type Backend =
  | { readonly kind: "file"; readonly dir: string }
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

/** Opens a lock. */
export async function openLock(backend: Backend): Promise<OpenLock> {
  const { open } = await import(MODULES[backend.kind]);
  return await open(backend);
}
