/**
 * The settings of TypeScript under which users compile, and a check of the package with each.
 *
 * @module
 */
import { NODE_22, programOf } from "./runtimes.ts";
import { installPackages } from "./install.ts";
import { linkedProject } from "./project.ts";

/** The compilers: the oldest that is supported, and the newest. */
export const COMPILERS = ["typescript@5.8.3", "typescript@7.0.2"] as const;
/** The types of the oldest Node that is supported. */
export const NODE_TYPES = "@types/node@22.20.5";
/** All packages that {@linkcode checkConsumer} installs. */
export const CONSUMER_PACKAGES = [...COMPILERS, NODE_TYPES];

/** One way to compile. */
export interface ConsumerSettings {
  readonly compiler: typeof COMPILERS[number];
  readonly module: "node16" | "node20" | "nodenext" | "esnext";
  readonly moduleResolution: "node16" | "nodenext" | "bundler";
  readonly isCommonJs: boolean;
  readonly hasDom: boolean;
}

/** All ways that are supported. */
export function allConsumers(): ConsumerSettings[] {
  const modules = [
    { module: "node16", moduleResolution: "node16", isCommonJs: false },
    { module: "nodenext", moduleResolution: "nodenext", isCommonJs: false },
    { module: "esnext", moduleResolution: "bundler", isCommonJs: false },
    { module: "nodenext", moduleResolution: "nodenext", isCommonJs: true },
  ] as const;
  const all = COMPILERS.flatMap((compiler) =>
    modules.flatMap((kind) => [true, false].map((hasDom) => ({ compiler, hasDom, ...kind })))
  );
  return [...all, NODE20];
}

/** In 5.8, the oldest compiler, this is called `nodenext` alone. */
const NODE20: ConsumerSettings = {
  ...{ compiler: COMPILERS[1], module: "node20", moduleResolution: "node16" },
  ...{ isCommonJs: true, hasDom: false },
};
/** The way that does not work: this setting refuses `require()` of an ES module. */
export const REFUSED: ConsumerSettings = { ...NODE20, module: "node16" };

/** A few ways, which have each setting at least once. The newest compiler is much faster. */
export function someConsumers(): ConsumerSettings[] {
  return allConsumers().filter((_settings, index) => [7, 8, 11, 12].includes(index));
}

/** Describes settings in a few words. */
export function titleOf(settings: ConsumerSettings): string {
  const { compiler, module, moduleResolution, isCommonJs, hasDom } = settings;
  const kind = moduleResolution === "bundler" ? moduleResolution : module;
  const format = isCommonJs ? "CommonJS" : "ESM";
  return `${compiler} ${kind} ${format} ${hasDom ? "with" : "without"} DOM`;
}

/** Compiles a user's program, with all declarations of the package. Returns the errors. */
export async function checkConsumer(settings: ConsumerSettings): Promise<string> {
  const { compiler, module, moduleResolution, isCommonJs, hasDom } = settings;
  const types = await installPackages([NODE_TYPES]);
  await using project = await linkedProject({ "@types/node": `${types}/@types/node` });
  const source = await project.copy("consumer.ts");
  const file = `consumer.${isCommonJs ? "c" : "m"}ts`;
  await project.write(file, await Deno.readTextFile(source));
  const compilerOptions = {
    ...{ module, moduleResolution, strict: true, noEmit: true, skipLibCheck: false },
    ...{ exactOptionalPropertyTypes: true, target: "es2022", types: ["node"] },
    lib: ["es2022", ...hasDom ? ["dom"] : []],
  };
  await project.write("tsconfig.json", JSON.stringify({ compilerOptions, files: [file] }));
  const tsc = `${await installPackages([compiler])}/typescript/bin/tsc`;
  const { success, output } = await project.run([await programOf(NODE_22), tsc, "-p", "."]);
  return success ? "" : `${output.trim()} (failed)`;
}
