/**
 * The runtimes besides Deno that the package is tested on, from npm.
 *
 * @module
 */
import process from "node:process";
import { installPackages, installSkip } from "./install.ts";

/** A runtime in one version. */
export interface NpmRuntime {
  readonly name: string;
  /** The package that has its program. */
  readonly spec: string;
  /** The path of its program in `node_modules`. */
  readonly program: string;
}

const OS = process.platform === "win32" ? "win" : process.platform;
const NODE = `node-${OS}-${process.arch}`;

/** The oldest major version that is supported. */
export const NODE_22 = node("22.23.3");
/** The version between the oldest and the newest one. */
export const NODE_24 = node("24.21.0");
/** The newest version. */
export const NODE_26 = node("26.10.0");
/** The current version of Bun. */
export const BUN = bun("1.4.5");
/** The current releases. */
export const RUNTIMES: readonly NpmRuntime[] = [NODE_22, NODE_24, NODE_26, BUN];
/** The oldest releases that are supported, which only the soak runs. */
export const OLDEST_RUNTIMES: readonly NpmRuntime[] = [node("22.12.0"), bun("1.3.0")];
/** The oldest Deno that is supported: the first that can lock files. */
export const OLDEST_DENO = deno("2.8.0");

function node(version: string): NpmRuntime {
  return { name: `Node ${version}`, spec: `${NODE}@${version}`, program: `${NODE}/bin/node` };
}

function bun(version: string): NpmRuntime {
  return { name: `Bun ${version}`, spec: `bun@${version}`, program: "bun/bin/bun.exe" };
}

/** The package with which `FileLock` locks files on Node. */
export const KOFFI = "koffi@3.3.4";

/** The package of a platform: that of all platforms gets the program in a script of its installation. */
function deno(version: string): NpmRuntime {
  const spec = `@deno/${OS}-${process.arch}${OS === "linux" ? "-glibc" : ""}`;
  return { name: `Deno ${version}`, spec: `${spec}@${version}`, program: `${spec}/deno` };
}

/** The path of a runtime's program, which is installed if it is missing. */
export async function programOf({ spec, program }: NpmRuntime): Promise<string> {
  return `${await installPackages([spec])}/${program}`;
}

/** Why a runtime cannot be installed on this machine; `undefined` if it can. */
export async function runtimeSkip({ spec }: NpmRuntime): Promise<string | undefined> {
  return await installSkip([spec]);
}
