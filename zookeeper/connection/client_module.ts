// deno-lint-ignore-file no-import-prefix -- a bare name would fail when this is imported by URL
/**
 * Loads the client package on Deno. In the npm package, `client_module_npm.ts` takes its place.
 *
 * @module
 */
import zookeeper from "npm:node-zookeeper-client@1.1.3";

export function loadClient(): unknown {
  return zookeeper;
}
