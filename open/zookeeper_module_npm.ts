/**
 * Loads the module of `zookeeper:` URLs in the npm package, where bundlers must see it: `deno task npm` puts this
 * module in the place of `zookeeper_module.ts`.
 *
 * @module
 */
export async function loadZooKeeper(): Promise<typeof import("./zookeeper.ts")> {
  return await import("./zookeeper.ts");
}
