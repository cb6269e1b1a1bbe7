/**
 * A folder that test files, which run at the same time, fill once and share. It lasts for later runs.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { FileLock } from "../../file/mod.ts";

/** The environment variable that names another folder than `.npm/` of this project. */
export const NPM_FOLDER_VARIABLE = "HOLDFAST_NPM_FOLDER";
/** The folder for all that has to do with npm; git ignores the one of this project. */
export const NPM_FOLDER = process.env[NPM_FOLDER_VARIABLE] ??
  fileURLToPath(new URL("../../.npm", import.meta.url));
const OLD_MS = 24 * 3_600_000;

/**
 * Returns a folder, after `fill` has filled it if it did not exist.
 *
 * @param name Its path in the folder of npm. Names the content: another content has another name.
 * @param fill Fills an empty folder.
 */
export async function filledFolder(
  name: string,
  fill: (folder: string) => Promise<void>,
): Promise<string> {
  const folder = `${NPM_FOLDER}/${name}`;
  if (existsSync(folder)) return folder;
  await using locks = new FileLock({ dir: `${NPM_FOLDER}/locks` });
  await locks.request(name, async () => {
    if (existsSync(folder)) return;
    const fresh = `${folder}.new`;
    await rm(fresh, { recursive: true, force: true });
    await mkdir(fresh, { recursive: true });
    await fill(fresh);
    await rename(fresh, folder);
  });
  return folder;
}

/** Removes the folders beside this one that no run of the last day has made. */
export async function removeOldBeside(folder: string): Promise<void> {
  const parent = dirname(folder);
  for (const name of await readdir(parent)) {
    const { mtimeMs } = await stat(`${parent}/${name}`);
    if (Date.now() - mtimeMs > OLD_MS) await rm(`${parent}/${name}`, { recursive: true });
  }
}
