/**
 * Projects that use the package, as a user's would.
 *
 * @module
 */
import { cp, mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { makeTempDirectory } from "../runtime/temporary_files.ts";
import { type CommandResult, runCommand } from "../servers/command.ts";
import { npmInstall } from "./install.ts";
import { packedPackage } from "./package.ts";
import { LONG_BOUND_MS } from "../time.ts";

const SCRIPTS = new URL("./testdata/", import.meta.url);
/** The name of the package under test. */
export const PACKAGE = "@holdfast/lock";

/** A folder with installed packages. */
export interface Project extends AsyncDisposable {
  readonly folder: string;
  /** Copies a file of `testdata/`, with some of its text replaced; returns its path. */
  copy(name: string, replacements?: Readonly<Record<string, string>>): Promise<string>;
  /** Writes a file; returns its path. */
  write(name: string, text: string): Promise<string>;
  /** Runs a program in the folder. */
  run(command: readonly string[], env?: Readonly<Record<string, string>>): Promise<CommandResult>;
}

/** A project in which npm has installed the package, and nothing else. */
export async function installedProject(): Promise<Project> {
  const { archive } = await packedPackage();
  const folder = await makeTempDirectory();
  await npmInstall(folder, [archive]);
  return projectIn(folder);
}

/**
 * A project that has the package, and others that are installed elsewhere.
 *
 * @param others The folders of other packages, by their names.
 */
export async function linkedProject(
  others: Readonly<Record<string, string>> = {},
): Promise<Project> {
  const { folder: own } = await packedPackage();
  const folder = await makeTempDirectory();
  for (const [name, target] of Object.entries(others)) {
    await mkdir(dirname(`${folder}/node_modules/${name}`), { recursive: true });
    await symlink(target, `${folder}/node_modules/${name}`);
  }
  // A copy: through a link, the package would look for its peers where it was made.
  await cp(own, `${folder}/node_modules/${PACKAGE}`, { recursive: true });
  return projectIn(folder);
}

/** The project in a folder, which it removes at its end. */
export function projectIn(folder: string): Project {
  const write = async (name: string, text: string) => {
    await writeFile(`${folder}/${name}`, text);
    return `${folder}/${name}`;
  };
  return {
    folder,
    write,
    async copy(name, replacements = {}) {
      let text = await readFile(fileURLToPath(new URL(name, SCRIPTS)), "utf8");
      for (const [from, to] of Object.entries(replacements)) text = text.replaceAll(from, to);
      return await write(name, text);
    },
    run: (command, env = {}) => runCommand(command, LONG_BOUND_MS, { cwd: folder, env }),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  };
}
