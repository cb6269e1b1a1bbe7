/**
 * Loads the client package where it may be missing: in the npm package, `deno task npm` puts this module
 * in the place of `client_module.ts`. There the client is an optional peer.
 *
 * @module
 */
import { createRequire } from "node:module";
import { LockSetupError } from "../../core/contract/errors.ts";

/** The only version that works: `node_zookeeper_client.ts` uses its private parts. */
const VERSION = "1.1.3";
const NAME = "node-zookeeper-client";
const ADVICE = `install it with npm install ${NAME}@${VERSION}`;

/** The file of a CommonJS module; a bundle in that format has no `import.meta.url`. */
declare const __filename: string | undefined;

/**
 * Returns the client package.
 *
 * @throws {LockSetupError} If it is not installed, or in another version.
 */
export function loadClient(): unknown {
  const require = createRequire(typeof __filename === "string" ? __filename : import.meta.url);
  let version: unknown;
  try {
    ({ version } = require(`${NAME}/package.json`));
    if (version === VERSION) return require(NAME);
  } catch (cause) {
    const message = `Cannot use ZooKeeper: the package ${NAME} cannot be loaded: ${ADVICE}`;
    throw new LockSetupError(message, undefined, { cause });
  }
  throw new LockSetupError(`Cannot use ZooKeeper through ${NAME} ${version}: ${ADVICE}`);
}
