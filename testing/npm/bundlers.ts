/**
 * Bundles of a program that uses the package, by each bundler, and their runs.
 *
 * @module
 */
import { cp, mkdir, symlink } from "node:fs/promises";
import { makeTempDirectory } from "../runtime/temporary_files.ts";
import { installTogether } from "./install.ts";
import { linkedProject, type Project, projectIn } from "./project.ts";
import { BUN, KOFFI, NODE_22, type NpmRuntime, programOf } from "./runtimes.ts";

/** A bundler, and what its bundles run on. */
export interface Bundler {
  /** As a page names it. */
  readonly name: string;
  /** Its packages, by their names. */
  readonly packages: Readonly<Record<string, string>>;
  /** Builds into `out/`. */
  build(project: Project, program: string): Promise<void>;
  /** The bundles, by what they are. */
  readonly bundles: Readonly<Record<string, { readonly file: string; readonly on: NpmRuntime }>>;
}

/** The formats that most of them have. */
const FORMATS = {
  "ES modules": { file: "esm.mjs", on: NODE_22 },
  "CommonJS": { file: "cjs.cjs", on: NODE_22 },
};

/** webpack, which the default tests run: it replaces the most. */
export const WEBPACK: Bundler = {
  ...byScript("webpack", { webpack: "webpack@5.112.2" }),
  bundles: { ...FORMATS, "CommonJS, development": { file: "cjs_eval.cjs", on: NODE_22 } },
};

/** All of them but Next.js, which is no program of its own. */
export const BUNDLERS: readonly Bundler[] = [
  WEBPACK,
  byScript("rspack", { "@rspack/core": "@rspack/core@2.3.2" }),
  byScript("esbuild", { esbuild: "esbuild@0.28.2" }),
  byScript("rollup", {
    "rollup": "rollup@4.68.5",
    "@rollup/plugin-commonjs": "@rollup/plugin-commonjs@29.0.3",
    "@rollup/plugin-json": "@rollup/plugin-json@6.1.0",
    "@rollup/plugin-node-resolve": "@rollup/plugin-node-resolve@16.0.3",
  }),
  byScript("vite", { vite: "vite@8.3.8" }),
  bunBundler("node", NODE_22),
  bunBundler("bun", BUN),
];

/** The packages that the programs import. */
export const CLIENTS: Readonly<Record<string, string>> = {
  redis: "redis@6.3.1",
  ioredis: "ioredis@6.0.0",
};
/** The packages that stay outside of a bundle. */
export const OUTSIDE: Readonly<Record<string, string>> = {
  "koffi": KOFFI,
  "node-zookeeper-client": "node-zookeeper-client@1.1.3",
};

function byScript(name: string, packages: Readonly<Record<string, string>>): Bundler {
  return {
    name: Object.values(packages)[0]!,
    packages,
    bundles: FORMATS,
    async build(project, program) {
      const script = await project.copy("build.mjs");
      await runOrThrow(project, [await programOf(NODE_22), script, name, program, outOf(project)]);
    },
  };
}

function bunBundler(target: string, on: NpmRuntime): Bundler {
  return {
    name: `${BUN.spec} for ${target}`,
    packages: {},
    bundles: { "ES modules": { file: "esm.mjs", on }, "CommonJS": { file: "cjs.cjs", on } },
    async build(project, program) {
      for (const [format, file] of [["esm", "esm.mjs"], ["cjs", "cjs.cjs"]] as const) {
        const options = ["--target", target, "--format", format];
        const command = [await programOf(BUN), "build", program, ...options];
        await runOrThrow(project, [...command, "--outfile", `${outOf(project)}/${file}`]);
      }
    },
  };
}

function outOf({ folder }: Project): string {
  return `${folder}/out`;
}

async function runOrThrow(project: Project, command: readonly string[]): Promise<void> {
  const { success, output } = await project.run(command);
  if (!success) throw new Error(`${command.join(" ")} failed: ${output}`);
}

/** A project that has bundles, and besides only the packages that stay outside. */
export interface BundledProject extends Project {
  /** The folder of the project that built them, which is gone. */
  readonly builtIn: string;
}

/**
 * Bundles a program of `testdata/`.
 *
 * @param modules The files beside the program that it imports.
 */
export async function bundle(
  bundler: Bundler,
  program: string,
  modules: readonly string[] = [],
): Promise<BundledProject> {
  const installed = [
    ...await installTogether({ ...CLIENTS, ...OUTSIDE }),
    ...await installTogether(bundler.packages),
  ];
  await using project = await linkedProject(Object.fromEntries(installed));
  for (const module of modules) await project.copy(module);
  await mkdir(outOf(project));
  await bundler.build(project, await project.copy(program));
  const folder = await makeTempDirectory();
  await cp(outOf(project), folder, { recursive: true });
  await mkdir(`${folder}/node_modules`);
  for (const [name, target] of await installTogether(OUTSIDE)) {
    await symlink(target, `${folder}/node_modules/${name}`);
  }
  return { ...projectIn(folder), builtIn: project.folder };
}
