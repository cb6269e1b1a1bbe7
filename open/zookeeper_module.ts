/**
 * Loads the module of `zookeeper:` URLs on Deno. In the npm package, `zookeeper_module_npm.ts` takes its place.
 *
 * @module
 */

/** Not a literal in `import()`: Deno would download the client package for each user of `openLock()`. */
const SPECIFIER: string = "./zookeeper.ts";

export async function loadZooKeeper(): Promise<typeof import("./zookeeper.ts")> {
  return await import(SPECIFIER);
}
