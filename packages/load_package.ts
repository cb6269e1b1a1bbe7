import { isAbsolute } from "node:path";
import process from "node:process";
import * as util from "node:util";

/** How many callers are searched for the file that runs: code that was evaluated is in no file. */
const CALLERS = 20;

/** The package is not where the running files look for it. */
export class PackageNotFound extends Error {
  /** The files it was looked for from. */
  readonly places: string;

  /** Creates an error; the cause is that of the runtime. */
  constructor(specifier: string, files: readonly string[], cause: unknown) {
    const places = files.map((file) => JSON.stringify(file)).join(" and ") || "any file";
    super(`${specifier} is not found from ${places}`, { cause });
    this.places = places;
  }
}

/**
 * Loads a package that only some users install. Bundlers see no import here, so it stays outside of the bundle.
 *
 * @throws {PackageNotFound} If it is not found from the file that this code is in, which may be a bundle, nor from
 * the script that the process runs. Not from the working directory: another user's code could be loaded from there.
 * @throws What the package throws, if it is found.
 */
export function loadPackage<T>(specifier: string): T {
  // Neither `createRequire` by its import nor `import.meta.url` or `__filename`: bundlers replace them, by a
  // function that only knows the bundle and by paths of the machine that makes the bundle.
  const { createRequire } = process.getBuiltinModule("node:module");
  const files = runningFiles();
  let cause: unknown;
  for (const file of files) {
    const load = createRequire(file);
    try {
      load.resolve(specifier);
    } catch (error) {
      if ((error as { code?: string } | null)?.code !== "MODULE_NOT_FOUND") throw error;
      cause = error;
      continue;
    }
    return load(specifier) as T;
  }
  throw new PackageNotFound(specifier, files, cause);
}

/** The file that this code is in, and the script of the process. */
function runningFiles(): string[] {
  // Bun 1.3.0 cannot tell the callers. Source maps would name files of the machine that made the bundle.
  const callers = util.getCallSites?.(CALLERS, { sourceMap: false }) ?? [];
  const own = callers.map(({ scriptName }) => scriptName).find(isFile);
  return [...new Set([own, process.argv[1]])].filter(isFile);
}

function isFile(name: string | undefined): name is string {
  return name !== undefined && (name.startsWith("file:") || isAbsolute(name));
}
