/**
 * Maps test files to strategies and selects the files of a run.
 *
 * @module
 */

import { readdir, stat } from "node:fs/promises";

/** The strategies that a run can be limited to. */
export const STRATEGIES = ["memory", "file", "redis", "zookeeper"] as const;

/** One of the strategies. */
export type Strategy = typeof STRATEGIES[number];

/** True for the name of a strategy. */
export function isStrategy(name: string): name is Strategy {
  return (STRATEGIES as readonly string[]).includes(name);
}

/**
 * The strategy of a test file, by its folder in `tests/` or by the start of its name, as in
 * `tests/conformance/redis_ioredis_test.ts`. Undefined if the file belongs to no strategy.
 */
export function strategyOf(path: string): Strategy | undefined {
  const [folder = "", ...rest] = path.replace(/^.*\btests\//, "").split("/");
  if (folder === "core") return undefined;
  const name = rest.at(-1) ?? folder;
  return [folder, name.split("_")[0] ?? ""].find(isStrategy);
}

/** The files to run: those of the wanted strategies, and those that belong to none. */
export function selectFiles(paths: readonly string[], wanted: readonly Strategy[]): string[] {
  return paths.filter((path) => {
    const strategy = strategyOf(path);
    return strategy === undefined || wanted.includes(strategy);
  });
}

/** All test files below a folder, sorted; or the path itself if it is a file. */
export async function testFilesIn(path: string): Promise<string[]> {
  if ((await stat(path)).isFile()) return [path];
  const files: string[] = [];
  for (const entry of await readdir(path, { withFileTypes: true })) {
    const { name } = entry;
    if (entry.isDirectory()) files.push(...await testFilesIn(`${path}/${name}`));
    else if (name.endsWith("_test.ts")) files.push(`${path}/${name}`);
  }
  return files.sort();
}
