/**
 * The arguments of the test runner.
 *
 * @module
 */
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { isStrategy, selectFiles, STRATEGIES, testFilesIn } from "./select.ts";

/** How the runner is used. */
export const USAGE = `Usage: deno task test [options] [FILES…]

  --only memory,file,redis,zookeeper  only these strategies' tests, and those of no strategy
  --filter TEXT                       only tests whose name contains the text, or matches /REGEX/
  --no-install                        installs nothing: fails and says what is missing; so does the
                                      environment variable HOLDFAST_NO_INSTALL=1
  --help                              prints this
  FILES                               only these test files or folders`;

/** The tests to run, as the arguments say. */
export interface Selection {
  readonly files: readonly string[];
  readonly filter: string | undefined;
  /** Whether missing servers must not be installed. */
  readonly isInstallRefused: boolean;
}

/**
 * Reads the arguments; files are relative to the root.
 *
 * @returns Undefined if only help is asked for.
 * @throws {Error} If an argument is wrong.
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
      "no-install": { type: "boolean", default: false },
      help: { type: "boolean" },
    },
  });
  if (values.help) return undefined;
  const wanted = values.only?.split(",") ?? STRATEGIES;
  const unknown = wanted.find((name) => !isStrategy(name));
  if (unknown !== undefined) {
    throw new Error(`Unknown strategy "${unknown}": name some of ${STRATEGIES.join(",")}`);
  }
  const paths = positionals.length > 0 ? positionals : ["tests"];
  const files = await Promise.all(paths.map((path) => findFiles(path, root)));
  return {
    files: selectFiles(files.flat(), wanted.filter(isStrategy)),
    filter: values.filter,
    isInstallRefused: values["no-install"],
  };
}

async function findFiles(path: string, root: string): Promise<string[]> {
  try {
    return await testFilesIn(resolve(root, path));
  } catch {
    throw new Error(`No such test file or folder: ${path}`);
  }
}
