/**
 * Installs packages from npm for tests, outside of the project's own dependencies.
 *
 * @module
 */
import { writeFile } from "node:fs/promises";
import { runCommand } from "../servers/command.ts";
import { filledFolder } from "./cache.ts";
import { LONG_BOUND_MS } from "../time.ts";

const QUIET = [
  ...["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error", "--fetch-retries=1"],
];

/**
 * Installs packages, unless an earlier run has done so.
 *
 * @param specs Names with exact versions, `typescript@5.8.3`.
 * @returns The folder `node_modules`.
 * @throws {Error} If npm cannot install them.
 */
export async function installPackages(specs: readonly string[]): Promise<string> {
  const name = specs.join("+").replaceAll(/[^\w.@+-]/g, "_");
  const folder = await filledFolder(`tools/${name}`, (folder) => npmInstall(folder, specs));
  return `${folder}/node_modules`;
}

/**
 * Installs packages in one folder, so that they find each other.
 *
 * @param packages Names with exact versions, by their names.
 * @returns The folder of each.
 */
export async function installTogether(
  packages: Readonly<Record<string, string>>,
): Promise<(readonly [name: string, folder: string])[]> {
  const names = Object.keys(packages);
  if (names.length === 0) return [];
  const folder = await installPackages(Object.values(packages));
  return names.map((name) => [name, `${folder}/${name}`]);
}

/**
 * Runs `npm install` in a folder.
 *
 * @throws {Error} If it fails.
 */
export async function npmInstall(cwd: string, specs: readonly string[]): Promise<void> {
  await writeFile(`${cwd}/package.json`, JSON.stringify({ private: true }));
  const command = ["npm", "install", ...QUIET, ...specs];
  const { success, output } = await runCommand(command, LONG_BOUND_MS, { cwd });
  if (!success) throw new Error(`Cannot install ${specs.join(", ")} from npm: ${output.trim()}`);
}

/** Why packages cannot be installed; `undefined` if they can. */
export async function installSkip(specs: readonly string[]): Promise<string | undefined> {
  try {
    await installPackages(specs);
    return undefined;
  } catch (error) {
    return (error as Error).message.split("\n", 1)[0];
  }
}
