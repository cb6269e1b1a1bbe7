/**
 * The command line of the test runner: options, help text, selection of files.
 *
 * @module
 */
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { isStrategy, selectFiles, STRATEGIES, testFilesIn } from "./select.ts";
import { readServers, type ServerProgram } from "./servers.ts";

/** The help text of the runner. */
export const USAGE = `Usage: deno task test [options] [FILES…]

Runs the tests. Finds or starts the servers that they need and stops them at the end.

  --only memory,file,redis,zookeeper  only the tests of these strategies, and those of none
  --filter TEXT                       only tests whose name contains TEXT, or matches /REGEX/
  --servers redis=PATH,redis=PATH,…   starts Redis with this program; with several, the tests of Redis
                                      run once with each, then the others. "deno task servers" gets
                                      some. Without it, the tests look for a server themselves
  --coverage                          prints which lines of the published code the tests reached; what
                                      child processes reached is not counted
  --no-install                        never installs a missing server, but fails and names it; the
                                      same as HOLDFAST_NO_INSTALL=1
  --help                              prints this text
  FILES                               only these test files or folders`;

/** The tests to run, as read from the command line. */
export interface Selection {
  readonly files: readonly string[];
  readonly filter: string | undefined;
  /** Whether these are all tests. */
  readonly isWhole: boolean;
  /** The programs that start Redis; none if the tests look for one. */
  readonly servers: readonly ServerProgram[];
  /** Whether to count the lines that the tests reach. */
  readonly isCovered: boolean;
  /** Whether missing servers must not be installed. */
  readonly isInstallRefused: boolean;
}

/**
 * Reads the arguments; files are relative to the root.
 *
 * @returns Undefined for `--help`.
 * @throws {Error} If an option, a strategy, a file or a server is unknown.
 */
export async function readArguments(
  args: readonly string[],
  root: string,
): Promise<Selection | undefined> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      only: { type: "string" },
      filter: { type: "string" },
      servers: { type: "string" },
      coverage: { type: "boolean", default: false },
      "no-install": { type: "boolean", default: false },
      help: { type: "boolean" },
    },
  });
  if (values.help) return undefined;
  const wanted = values.only?.split(",") ?? STRATEGIES;
  const unknown = wanted.find((name) => !isStrategy(name));
  if (unknown !== undefined) {
    throw new Error(`Unknown strategy "${unknown}": choose from ${STRATEGIES.join(",")}`);
  }
  const paths = positionals.length > 0 ? positionals : ["tests"];
  const files = await Promise.all(paths.map((path) => findFiles(path, root)));
  return {
    files: selectFiles(files.flat(), wanted.filter(isStrategy)),
    filter: values.filter,
    isWhole: positionals.length === 0 && values.filter === undefined && wanted === STRATEGIES,
    servers: values.servers === undefined ? [] : await readServers(values.servers, root),
    isCovered: values.coverage,
    isInstallRefused: values["no-install"],
  };
}

async function findFiles(path: string, root: string): Promise<string[]> {
  try {
    return await testFilesIn(resolve(root, path));
  } catch {
    throw new Error(`Cannot find the test file or folder "${path}"`);
  }
}
