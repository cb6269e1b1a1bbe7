/**
 * Deno, Node and Bun for tests of `FileLock`: starts TypeScript in them.
 *
 * @module
 */
import { basename } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { installPackages } from "../npm/install.ts";
import { BUN, KOFFI, NODE_22, programOf } from "../npm/runtimes.ts";
import { scriptCommand } from "../runtime/processes.ts";
import { runCommand } from "../servers/command.ts";
import { LONG_BOUND_MS } from "../time.ts";

/** The scripts that Node runs. They are bundled: to remove the types takes it half a second each time. */
const SCRIPTS = ["attempt", "member", "racer"].map((name) =>
  new URL(`./${name}.ts`, import.meta.url)
);

/** A runtime. */
export interface Runtime {
  readonly name: "Deno" | "Node" | "Bun";
  readonly program: string;
  /** The command that runs a script of this folder. */
  readonly commandOf: (script: URL) => string[];
  /** Where it finds koffi. */
  readonly env: { readonly NODE_PATH: string };
}

/**
 * The runtimes with which `FileLock` works.
 *
 * @param folder Where the bundles for Node are written.
 */
export async function runtimes(folder: string): Promise<readonly Runtime[]> {
  const [modules, node, bun] = await Promise.all([
    installPackages([KOFFI]),
    programOf(NODE_22),
    programOf(BUN),
  ]);
  await bundle(["--outdir", folder, ...SCRIPTS.map((script) => fileURLToPath(script))]);
  const env = { NODE_PATH: modules };
  return [
    { name: "Deno", program: process.execPath, commandOf: scriptCommand, env },
    {
      ...{ name: "Node", program: node, env },
      commandOf: (script) => [node, `${folder}/${basename(script.pathname, ".ts")}.js`],
    },
    {
      ...{ name: "Bun", program: bun, env },
      commandOf: (script) => [bun, fileURLToPath(script)],
    },
  ];
}

/** Bundles scripts, without types. */
export async function bundle(args: readonly string[]): Promise<void> {
  const command = [process.execPath, "bundle", "-q", ...args];
  const { success, output } = await runCommand(command, LONG_BOUND_MS);
  if (!success) throw new Error(`Cannot bundle: ${output}`);
}
