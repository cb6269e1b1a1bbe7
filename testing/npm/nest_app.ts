/**
 * The application of `examples/nestjs/`, compiled to CommonJS against the npm package, and its processes.
 *
 * @module
 */
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { linesOf } from "../runtime/lines.ts";
import { spawnProcess } from "../runtime/processes.ts";
import { COMPILERS, NODE_TYPES } from "./consumers.ts";
import { installPackages } from "./install.ts";
import { linkedProject, type Project } from "./project.ts";
import { NODE_22, type NpmRuntime, programOf } from "./runtimes.ts";
import { CONDITION_BOUND_MS } from "../time.ts";

const EXAMPLE = fileURLToPath(new URL("../../examples/nestjs/", import.meta.url));
const KOFFI = "koffi@3.3.4";

/** A version of Nest, and the packages that an application has besides. */
export interface NestVersion {
  readonly name: string;
  readonly specs: readonly string[];
}

/** The versions: 10 and 11 are CommonJS, 12 is an ES module. */
export const NEST_VERSIONS: readonly NestVersion[] = [
  nest("11.2.10"),
  nest("12.5.1"),
  nest("10.4.22"),
];

/** All packages that must be installed for a version. */
export function nestPackages({ specs }: NestVersion): (readonly string[])[] {
  return [specs, [KOFFI], [NODE_TYPES], ...COMPILERS.map((compiler) => [compiler])];
}

/** A running process of the application. */
export interface NestProcess extends AsyncDisposable {
  readonly url: string;
  /** What it has printed until it listened. */
  readonly log: readonly string[];
  /** Ends it as a deployment does. */
  stop(): Promise<void>;
}

/** The compiled application. */
export interface NestApp extends AsyncDisposable {
  /** Starts a process; all of them share their locks. */
  start(runtime: NpmRuntime): Promise<NestProcess>;
}

/** A project with Nest and the package. */
export async function nestProject({ specs }: NestVersion): Promise<Project> {
  const packages = await installPackages(specs);
  return await linkedProject({
    ...Object.fromEntries(
      ["@nestjs", "rxjs", "reflect-metadata"].map((name) => [name, `${packages}/${name}`]),
    ),
    "@types/node": `${await installPackages([NODE_TYPES])}/@types/node`,
    "koffi": `${await installPackages([KOFFI])}/koffi`,
  });
}

/** Compiles the application. */
export async function compileNestApp(
  version: NestVersion,
  compiler: typeof COMPILERS[number],
): Promise<NestApp> {
  const project = await nestProject(version);
  for (const file of ["main.ts", "tsconfig.json"]) {
    const text = await readFile(EXAMPLE + file, "utf8");
    // Many requests wait at once: on a slow machine the example's 5 s would be over.
    await project.write(file, text.replaceAll("waitMs: 5_000", `waitMs: ${CONDITION_BOUND_MS}`));
  }
  const tsc = `${await installPackages([compiler])}/typescript/bin/tsc`;
  const { success, output } = await project.run([await programOf(NODE_22), tsc, "-p", "."]);
  if (!success) throw new Error(`Cannot compile the application with ${version.name}: ${output}`);
  return {
    start: async (runtime) => await startApp(await programOf(runtime), project.folder),
    [Symbol.asyncDispose]: () => project[Symbol.asyncDispose](),
  };
}

async function startApp(program: string, folder: string): Promise<NestProcess> {
  const child = spawnProcess([program, `${folder}/dist/main.js`], {
    cwd: folder,
    env: { PORT: "0", LOCK_DIR: `${folder}/locks` },
    stdout: "pipe",
    stderr: "inherit",
  });
  const stop = async () => {
    child.kill("SIGTERM");
    await child.ended;
  };
  const lines = linesOf(child.stdout!);
  const log: string[] = [];
  for (;;) {
    const line = await lines.next();
    if (line === null) {
      await stop();
      throw new Error(`The application does not listen: ${log.join("\n")}`);
    }
    log.push(line);
    const url = /^Listening on (\S+)$/.exec(line)?.[1]?.replace("[::1]", "localhost");
    if (url !== undefined) return { url, log, stop, [Symbol.asyncDispose]: stop };
  }
}

function nest(version: string): NestVersion {
  const parts = ["common", "core", "platform-express"].map((part) => `@nestjs/${part}@${version}`);
  return { name: `Nest ${version}`, specs: [...parts, "rxjs@7.8.2", "reflect-metadata@0.2.2"] };
}
