/**
 * `deno task npm`: makes the npm package in `.npm/`, and checks how large its entries are.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { makePackage } from "./pack.ts";
import { isTooLarge, measureEntries, sizeLine } from "./sizes.ts";

const PLACE = ".npm/pack";
const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const USAGE = `Usage: deno task npm [options]

Makes the npm package: an archive to install or to publish, and its content beside it. Prints the size
of each entry, minified and compressed, and fails if one is larger than it may be.

  --out FOLDER  where to; it is replaced. By default ${PLACE}
  --help        prints this text`;

if (import.meta.main) process.exit(await main());

async function main(): Promise<number> {
  let options;
  try {
    options = readArguments(process.argv.slice(2));
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    return 2;
  }
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  return await run(options.out === undefined ? ROOT + PLACE : resolve(options.out));
}

function readArguments(args: string[]) {
  return parseArgs({
    args,
    options: { out: { type: "string" }, help: { type: "boolean", default: false } },
  }).values;
}

async function run(out: string): Promise<number> {
  const { manifest, archive, folder } = await makePackage(out);
  const work = await mkdtemp(join(tmpdir(), "holdfast-npm-"));
  try {
    const sizes = await measureEntries(manifest, folder, work);
    console.log(sizes.map(sizeLine).join("\n"));
    console.log(`${manifest.name} ${manifest.version}: ${relative(process.cwd(), archive)}`);
    return sizes.some(isTooLarge) ? 1 : 0;
  } finally {
    await rm(work, { recursive: true });
  }
}
