/**
 * Node and Bun for tests of `FileLock`: gets them and koffi from npm, and starts TypeScript in them.
 *
 * @module
 */
import { lstatSync } from "node:fs";
import { mkdtemp, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { scriptCommand } from "../runtime/processes.ts";
import { runCommand } from "../servers/command.ts";

/** The oldest Node on which published code must run, and a Bun. */
const PACKAGES = ["node@22.23.3", "bun@1.4.5", "koffi@3.3.4"];
/** The packages are about 300 MB. */
const INSTALL_BOUND_MS = 240_000;
/** The scripts that Node runs. They are bundled: to remove the types takes it half a second each time. */
const SCRIPTS = ["attempt", "member", "racer"].map((name) =>
  new URL(`./${name}.ts`, import.meta.url)
);
const BUNDLE_BOUND_MS = 60_000;

/** A runtime. */
export interface Runtime {
  readonly name: "Deno" | "Node" | "Bun";
  /** The command that runs a script of this folder. */
  readonly commandOf: (script: URL) => string[];
  /** Where it finds koffi. */
  readonly env: Readonly<Record<string, string>>;
}

/** The folder of the packages, which later runs use again. */
export async function installRuntimes(): Promise<string> {
  const id = PACKAGES.join("_").replaceAll("@", "-");
  const folder = `${tmpdir()}/holdfast-runtimes-${process.getuid?.() ?? "user"}-${id}`;
  if (!isOwn(folder)) await install(folder);
  return `${folder}/node_modules`;
}

/**
 * The runtimes with which `FileLock` works.
 *
 * @param folder Where the bundles for Node are written.
 */
export async function runtimes(folder: string): Promise<readonly Runtime[]> {
  const modules = await installRuntimes();
  await bundle(["--outdir", folder, ...SCRIPTS.map((script) => fileURLToPath(script))]);
  const env = { NODE_PATH: modules };
  const [node, bun] = [`${modules}/.bin/node`, `${modules}/.bin/bun`];
  return [
    { name: "Deno", commandOf: scriptCommand, env },
    {
      ...{ name: "Node", env },
      commandOf: (script) => [node, `${folder}/${basename(script.pathname, ".ts")}.js`],
    },
    { name: "Bun", commandOf: (script) => [bun, fileURLToPath(script)], env },
  ];
}

/** Bundles scripts, without types. */
export async function bundle(args: readonly string[]): Promise<void> {
  const command = [process.execPath, "bundle", "-q", ...args];
  const { success, output } = await runCommand(command, BUNDLE_BOUND_MS);
  if (!success) throw new Error(`Cannot bundle: ${output}`);
}

/** Another user could have put programs into a folder of this name. */
function isOwn(folder: string): boolean {
  const info = lstatSync(folder, { throwIfNoEntry: false });
  return info !== undefined && info.isDirectory() && info.uid === (process.getuid?.() ?? info.uid);
}

/** Installs into a folder of another name first: a run that is cut off leaves no half of it. */
async function install(folder: string): Promise<void> {
  const part = await mkdtemp(`${folder}.`);
  const command = ["npm", "install", "--no-save", "--no-audit", "--no-fund", "--prefix", part];
  const { success, output } = await runCommand([...command, ...PACKAGES], INSTALL_BOUND_MS);
  if (!success) throw new Error(`Cannot install ${PACKAGES.join(", ")} from npm: ${output}`);
  // Another run may have been faster.
  await rename(part, folder).catch(() => rm(part, { recursive: true }));
}
