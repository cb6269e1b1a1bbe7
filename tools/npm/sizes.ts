/**
 * The size of each entry of the package: what it adds to a program that a bundler makes smaller, after
 * gzip.
 *
 * @module
 */
import { readFile, writeFile } from "node:fs/promises";
import process from "node:process";
import { gzipSync } from "node:zlib";
import { runCommand } from "../../testing/servers/command.ts";
import type { PackedManifest } from "./manifest.ts";
import { PEERS } from "./project.ts";

const BUNDLE_BOUND_MS = 120_000;

/** The largest size of each entry, in bytes after gzip. A new entry needs one. */
const BOUNDS: Readonly<Record<string, number>> = {
  ".": 15_100,
  "./file": 23_000,
  "./redis": 35_500,
  "./redis/node-redis": 3_300,
  "./redis/ioredis": 2_800,
  "./redis/deno-redis": 2_800,
  "./zookeeper": 30_000,
  "./http": 7_100,
  "./http/koa": 7_300,
  "./http/express": 7_700,
  "./http/fastify": 8_200,
  "./http/hono": 7_200,
  "./http/lambda": 8_000,
  "./http/nestjs": 9_700,
  "./lock-service": 8_000,
  "./otel": 5_000,
  "./timeline": 13_600,
  "./testing": 15_500,
  "./open": 73_000,
  "./web-locks": 5_600,
  "./command": 94_000,
  "./fencing": 4_200,
  "./recipes": 2_000,
  "./adapters/node-cron": 1_500,
  "./redlock": 6_000,
};

/** The entries that are used with another one, whose size does not count. */
const ON_TOP_OF: Readonly<Record<string, string>> = {
  "./recipes": "./redis",
  "./adapters/node-cron": "./redis",
  "./redlock": "./redis",
};

/** The size of an entry. */
export interface EntrySize {
  readonly entry: string;
  readonly bytes: number;
  /** `undefined` if the entry has no bound yet. */
  readonly bound: number | undefined;
}

/**
 * Measures all entries of a package.
 *
 * @param folder The unpacked package.
 * @param work An empty folder for the bundles.
 */
export async function measureEntries(
  { exports }: PackedManifest,
  folder: string,
  work: string,
): Promise<EntrySize[]> {
  const sizes: EntrySize[] = [];
  const sizeWith = async (...entries: string[]) => {
    const paths = entries.map((entry) => `${folder}/${exports[entry]!.default}`);
    return await sizeOf(paths, work);
  };
  for (const entry of Object.keys(exports)) {
    const below = ON_TOP_OF[entry];
    const bytes = below === undefined
      ? await sizeWith(entry)
      : await sizeWith(below, entry) - await sizeWith(below);
    sizes.push({ entry, bytes, bound: BOUNDS[entry] });
  }
  return sizes;
}

/** The size of some modules in one bundle. */
async function sizeOf(modules: readonly string[], work: string): Promise<number> {
  const [module, bundle] = [`${work}/all.js`, `${work}/bundle.js`];
  const lines = modules.map((path) => `export * from ${JSON.stringify(path)};`);
  await writeFile(module, lines.join("\n"));
  const external = Object.keys(PEERS).map((name) => `--external=${name}`);
  const options = ["--quiet", "--minify", "--no-config", "--platform", "deno", "-o", bundle];
  const command = [process.execPath, "bundle", ...options, ...external, module];
  const { success, output } = await runCommand(command, BUNDLE_BOUND_MS);
  if (!success) throw new Error(`Cannot bundle ${module}: ${output}`);
  return gzipSync(await readFile(bundle), { level: 9 }).length;
}

/** Whether an entry is larger than it may be. */
export function isTooLarge({ bytes, bound }: EntrySize): boolean {
  return bound === undefined || bytes > bound;
}

/** One line about an entry. */
export function sizeLine(size: EntrySize): string {
  const { entry, bytes, bound } = size;
  const limit = bound === undefined ? "no bound in tools/npm/sizes.ts" : `of at most ${kB(bound)}`;
  return `${isTooLarge(size) ? "FAILED" : "ok    "} ${entry.padEnd(20)} ${kB(bytes)} ${limit}`;
}

function kB(bytes: number): string {
  return `${(bytes / 1_000).toFixed(1)} kB`;
}
