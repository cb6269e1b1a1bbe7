/**
 * Finds what the published code uses and the oldest Node lacks: a type check with the library of that
 * Node.
 *
 * @module
 */
import { mkdir, readFile, rm, symlink } from "node:fs/promises";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { publishedSources } from "../../tools/docs/examples.ts";
import { filesIn } from "../../tools/architecture/imports.ts";
import { makeTempDirectory } from "../runtime/temporary_files.ts";
import { runCommand } from "../servers/command.ts";
import { COMPILERS, NODE_TYPES } from "./consumers.ts";
import { installPackages } from "./install.ts";
import { NEST_VERSIONS } from "./nest_app.ts";
import { NODE_22, programOf } from "./runtimes.ts";
import { LONG_BOUND_MS } from "../time.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
/** The parts of the language's library that Node 22 has. */
const LIBRARY = ["es2024", "es2025.iterator", "es2025.collection"];
const OPTIONS = {
  ...{ module: "esnext", moduleResolution: "bundler", target: "es2024", lib: LIBRARY },
  ...{ allowImportingTsExtensions: true, noEmit: true, skipLibCheck: true, types: ["node"] },
  ...{ strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true },
};
/** The package that only the entry for OpenTelemetry imports. */
export const TELEMETRY = "@opentelemetry/api@1.9.1";
/** Stands for the other module that only Deno loads. */
const AMBIENT = `declare module "npm:*" { const any: unknown; export default any; }`;

/** The published modules that run on Node, too: those that do not name `Deno`. */
export async function publishedModules(): Promise<string[]> {
  const sources = publishedSources();
  const paths = filesIn("")
    .filter((path) => path.endsWith(".ts") && sources.some((source) => path.startsWith(source)))
    .map((path) => ROOT + path);
  const texts = await Promise.all(paths.map((path) => readFile(path, "utf8")));
  return paths.filter((_path, index) => !/^(?!\s*(\*|\/\/)).*\bDeno\./m.test(texts[index]!));
}

/** Checks modules, but not what they import; returns an error for each use of what Node 22 lacks. */
export async function newerThanNode22(modules: readonly string[]): Promise<string[]> {
  const folder = await makeTempDirectory();
  try {
    const types = await installPackages([NODE_TYPES]);
    await mkdir(`${folder}/node_modules/@types`, { recursive: true });
    await symlink(`${types}/@types/node`, `${folder}/node_modules/@types/node`);
    await Deno.writeTextFile(`${folder}/ambient.d.ts`, AMBIENT);
    const nest = await installPackages(NEST_VERSIONS[0]!.specs);
    const telemetry = await installPackages([TELEMETRY]);
    const compilerOptions = {
      ...OPTIONS,
      typeRoots: [`${folder}/node_modules/@types`],
      paths: {
        "npm:@nestjs/common@x": [`${nest}/@nestjs/common`],
        "npm:rxjs@^7.1.0": [`${nest}/rxjs`],
        "npm:@opentelemetry/api@^1.9.0": [`${telemetry}/@opentelemetry/api`],
      },
    };
    const settings = { compilerOptions, files: ["ambient.d.ts", ...modules] };
    await Deno.writeTextFile(`${folder}/tsconfig.json`, JSON.stringify(settings));
    const tsc = `${await installPackages([COMPILERS[1]])}/typescript/bin/tsc`;
    const command = [await programOf(NODE_22), tsc, "-p", folder, "--pretty", "false"];
    const { output } = await runCommand(command, LONG_BOUND_MS, { cwd: folder });
    return output.split("\n").filter((line) => {
      const [, path] = /^(.*)\(\d+,\d+\): error /.exec(line) ?? [];
      return path !== undefined && modules.includes(resolve(folder, path));
    });
  } finally {
    await rm(folder, { recursive: true });
  }
}
