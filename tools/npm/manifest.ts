/**
 * Completes the `package.json` that `deno pack` writes.
 *
 * @module
 */
import { DESCRIPTION, ENGINES, KEYWORDS, PEERS, REPOSITORY } from "./project.ts";

/** The entry that is a program. */
const COMMAND = "./command";

/** The members that `deno pack` writes. */
export interface PackedManifest {
  readonly name: string;
  readonly version: string;
  readonly exports: Readonly<Record<string, PackedEntry>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly [more: string]: unknown;
}

/** One entry of the package. */
export interface PackedEntry {
  readonly types: string;
  readonly default: string;
}

/**
 * Adds what `deno pack` does not know. Each package that the code uses is a peer of the user's choice, so
 * there are no dependencies.
 *
 * @throws {Error} If the package has a dependency that is not a peer.
 */
export function completeManifest(packed: PackedManifest): PackedManifest {
  const { dependencies = {}, ...rest } = packed;
  const others = Object.keys(dependencies).filter((name) => !(name in PEERS));
  if (others.length > 0) throw new Error(`The package must not depend on ${others.join(", ")}`);
  const command = rest.exports[COMMAND]?.default;
  return {
    ...rest,
    description: DESCRIPTION,
    keywords: KEYWORDS,
    homepage: `${REPOSITORY}#readme`,
    bugs: `${REPOSITORY}/issues`,
    repository: { type: "git", url: `git+${REPOSITORY}.git` },
    engines: ENGINES,
    // The command does its work when it is loaded: a bundler must keep its import.
    sideEffects: command === undefined ? false : [command],
    ...command !== undefined && { bin: { holdfast: command } },
    peerDependencies: PEERS,
    peerDependenciesMeta: Object.fromEntries(
      Object.keys(PEERS).map((name) => [name, { optional: true }]),
    ),
  };
}
