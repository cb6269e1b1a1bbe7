/**
 * Loads the client package where it may be missing: in the npm package, `deno task npm` puts this module
 * in the place of `client_module.ts`. There the client is an optional peer.
 *
 * @module
 */
import { LockSetupError } from "../../core/contract/errors.ts";
import { loadPackage, PackageNotFound } from "../../packages/load_package.ts";

/** The only version that works: `node_zookeeper_client.ts` uses its private parts. */
const VERSION = "1.1.3";
const NAME = "node-zookeeper-client";
const ADVICE = `install it with npm install ${NAME}@${VERSION}`;

/** @throws {LockSetupError} If the package is not installed, or in another version. */
export function loadClient(): unknown {
  const { version } = load<{ version: unknown }>(`${NAME}/package.json`);
  if (version === VERSION) return load(NAME);
  throw new LockSetupError(`Cannot use ZooKeeper through ${NAME} ${version}: ${ADVICE}`);
}

function load<T>(specifier: string): T {
  try {
    return loadPackage<T>(specifier);
  } catch (cause) {
    const why = cause instanceof PackageNotFound
      ? `is not installed where ${cause.places} can find it: ${ADVICE}`
      : `cannot be loaded: ${cause instanceof Error ? cause.message : cause}`;
    throw new LockSetupError(`Cannot use ZooKeeper: the package ${NAME} ${why}`, undefined, {
      cause,
    });
  }
}
