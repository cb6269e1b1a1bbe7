/**
 * The runtimes that the snippets of the pages run on, each with all that a reader would install.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { copyFile, mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { basename } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { specifiersIn } from "../../tools/architecture/imports.ts";
import { documentedSnippets, type Snippet, type SnippetTarget } from "../../tools/docs/snippets.ts";
import { userImports } from "../../tools/import_map.ts";
import { filledFolder, removeOldBeside } from "../npm/cache.ts";
import { npmInstall } from "../npm/install.ts";
import { packedPackage } from "../npm/package.ts";
import { PACKAGE } from "../npm/project.ts";
import { NODE_22, type NpmRuntime, programOf, RUNTIMES, runtimeSkip } from "../npm/runtimes.ts";
import { makeTempDirectory } from "../runtime/temporary_files.ts";

const ROOT = new URL("../../", import.meta.url);
/** Packages that our entries load when they are used; snippets do not import them. */
const LOADED = ["koffi@3.3.4", "node-zookeeper-client@1.1.3"];
const NPM_SPECIFIER = /^npm:(@?[^@]+)@(\d.*)$/;

/** A runtime in one version. */
export interface SnippetRuntime {
  readonly name: string;
  /** Without `since`, its major version is in the target. */
  readonly target: SnippetTarget;
  /** Makes a folder in which a snippet finds its packages, and the command that runs one there. */
  folder(): Promise<SnippetFolder>;
  /** Why it cannot run here. */
  skip(): Promise<string | undefined>;
}

/** A folder of one run. */
export interface SnippetFolder extends AsyncDisposable {
  readonly path: string;
  command(script: string): string[];
}

/** The `deno.json` of all runs. It is made once: to find out whether JSR answers takes time. */
let configuration: Promise<string> | undefined;

/** Deno, with the sources of this project. */
export const DENO: SnippetRuntime = {
  name: `Deno ${process.versions["deno"]}`,
  target: { kind: "deno", since: majorOf(process.versions["deno"]!) },
  skip: () => Promise.resolve(undefined),
  async folder() {
    const path = await makeTempDirectory();
    await copyFile(new URL("deno.lock", ROOT), `${path}/deno.lock`);
    configuration ??= userImports().then((imports) => JSON.stringify({ imports }));
    await writeFile(`${path}/deno.json`, await configuration);
    return folderOf(path, (script) => [process.execPath, "run", "-A", "-q", "--no-check", script]);
  },
};

/** Node and Bun, with the npm package. */
export const NPM_RUNTIMES: readonly SnippetRuntime[] = RUNTIMES.map(npmRuntime);
const ALL: readonly SnippetRuntime[] = [DENO, ...NPM_RUNTIMES];
const SHORT: readonly SnippetRuntime[] = ALL.filter(({ name }) =>
  name === DENO.name || name === NODE_22.name
);

/**
 * The runtimes on which a snippet runs: all in the soak; otherwise Deno and Node 22, or another one if it is
 * for neither.
 */
export function runtimesOf(snippet: Snippet, isSoak: boolean): readonly SnippetRuntime[] {
  const fitting = ALL.filter((runtime) => fits(snippet, runtime));
  const short = fitting.filter((runtime) => SHORT.includes(runtime));
  return isSoak ? fitting : short.length > 0 ? short : fitting.slice(0, 1);
}

/** Whether a snippet is for a runtime. */
export function fits({ targets }: Snippet, { target }: SnippetRuntime): boolean {
  return targets.some(({ kind, since }) => kind === target.kind && since <= target.since);
}

function npmRuntime(runtime: NpmRuntime): SnippetRuntime {
  const [kind = "", version = ""] = runtime.name.toLowerCase().split(" ");
  return {
    name: runtime.name,
    target: { kind: kind as SnippetTarget["kind"], since: majorOf(version) },
    async skip() {
      return await runtimeSkip(runtime) ?? await installedSkip();
    },
    async folder() {
      const program = await programOf(runtime);
      const path = await makeTempDirectory();
      await symlink(`${await installedPackages()}/node_modules`, `${path}/node_modules`);
      return folderOf(path, (script) => [program, script]);
    },
  };
}

async function folderOf(
  path: string,
  command: SnippetFolder["command"],
): Promise<SnippetFolder> {
  await mkdir(`${path}/runtime`, { mode: 0o700 });
  return { path, command, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) };
}

/** The package and all that the snippets import, as npm has installed them into an empty folder. */
async function installedPackages(): Promise<string> {
  const { archive } = await packedPackage();
  const specs = [...importedPackages(), ...LOADED].toSorted();
  const sources = basename(fileURLToPath(new URL("..", `file://${archive}`)));
  const digest = createHash("sha256").update(`${archive} ${sources} ${specs}`).digest("hex");
  return await filledFolder(`snippets/${digest.slice(0, 16)}`, async (folder) => {
    await npmInstall(folder, [archive, ...specs]);
    await removeOldBeside(folder);
  });
}

/** Why npm cannot install them. A package that cannot be made, or that is not configured, is no reason to skip. */
async function installedSkip(): Promise<string | undefined> {
  importedPackages();
  await packedPackage();
  try {
    await installedPackages();
    return undefined;
  } catch (error) {
    return (error as Error).message.split("\n", 1)[0];
  }
}

/**
 * The packages that the snippets import, in the versions of `deno.json`.
 *
 * @throws {Error} If one is not there.
 */
function importedPackages(): string[] {
  const versions = new Map(
    Object.values(configuredImports()).flatMap((specifier) => {
      const [, name, version] = NPM_SPECIFIER.exec(specifier) ?? [];
      return name === undefined ? [] : [[name, `${name}@${version}`]];
    }),
  );
  const names = documentedSnippets().filter(isForNpm).flatMap(({ code }) => specifiersIn(code))
    .filter((specifier) => !specifier.startsWith("node:"))
    .map((specifier) => /^(?:@[^/]+\/)?[^/]+/.exec(specifier)![0])
    .filter((name) => name !== PACKAGE);
  return [...new Set(names)].map((name) => {
    const spec = versions.get(name);
    if (spec === undefined) throw new Error(`A snippet imports ${name}: add it to deno.json`);
    return spec;
  });
}

function isForNpm({ targets }: Snippet): boolean {
  return targets.some(({ kind }) => kind !== "deno");
}

function configuredImports(): Record<string, string> {
  return (JSON.parse(Deno.readTextFileSync(new URL("deno.json", ROOT))) as {
    imports: Record<string, string>;
  }).imports;
}

function majorOf(version: string): number {
  return Number(version.split(".")[0]);
}
