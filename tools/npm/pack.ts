/**
 * Makes the npm package: runs `deno pack` on a copy of the published files, and completes the result.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { cp, mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";
import { runCommand } from "../../testing/servers/command.ts";
import { filesIn } from "../architecture/imports.ts";
import { packedLinks } from "./links.ts";
import { completeManifest, type PackedManifest } from "./manifest.ts";
import { REPOSITORY, UNPACKED_PAGES } from "./project.ts";
import { type Files, readTar, writeTar } from "./tar.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const PACK_BOUND_MS = 120_000;
const MANIFEST = "package/package.json";
/** Modules that take the place of the one without the suffix. */
const TWIN = /_npm\.ts$/;
/** Of the published files, those that the package needs. The Lua scripts are in modules too. */
const NEEDED = /\.(ts|md)$|^llms\.txt$|^LICENSE$|^deno\.json$/;
/** What only the npm package has beside the published files: pages, and examples but the demo and tests. */
const DOCUMENTATION = [
  /^docs\/[^/]+\.md$|^docs\/api\.txt$|^(README\.zh-CN|SECURITY)\.md$/,
  /^examples\/(?!demo|worker|account|testing)/,
];
/** The files that have links. */
const PAGE = /\.md$|^package\/llms\.txt$/;

/** A package that was made. */
export interface NpmPackage {
  readonly manifest: PackedManifest;
  /** The archive that npm installs. */
  readonly archive: string;
  /** The same, unpacked. */
  readonly folder: string;
}

/**
 * Makes the package in a folder, which it replaces.
 *
 * @param out The folder for the archive and its content.
 * @throws {Error} If `deno pack` fails.
 */
export async function makePackage(out: string): Promise<NpmPackage> {
  const work = await mkdtemp(join(tmpdir(), "holdfast-npm-"));
  try {
    await copyPublished(work);
    const packed = new Map([...await pack(work), ...await documentation()]);
    const { manifest, files } = completePackage(packed);
    const name = `${manifest.name.replace("@", "").replace("/", "-")}-${manifest.version}.tgz`;
    const archive = gzipSync(writeTar(files), { level: 9 });
    await replaceFolder(out, new Map(files).set(name, archive));
    return { manifest, archive: `${out}/${name}`, folder: `${out}/package` };
  } finally {
    await rm(work, { recursive: true });
  }
}

/** Copies the published files. A copy needs no clean checkout, and its modules can be exchanged. */
async function copyPublished(work: string): Promise<void> {
  const { publish } = JSON.parse(await readFile(`${ROOT}deno.json`, "utf8")) as {
    publish: { include: string[] };
  };
  const files = filesIn("").filter((file) =>
    NEEDED.test(file) && publish.include.some((prefix) => file.startsWith(prefix))
  );
  const twins = files.filter((file) => TWIN.test(file));
  for (const file of files) {
    if (!twins.includes(file)) await cp(ROOT + file, `${work}/${file}`);
  }
  for (const twin of twins) await cp(ROOT + twin, `${work}/${twin.replace(TWIN, ".ts")}`);
}

/** Runs `deno pack`, and reads the archive. */
async function pack(cwd: string): Promise<Files> {
  const archive = `${cwd}/packed.tgz`;
  const command = [process.execPath, "pack", "--no-source-maps", "-o", archive];
  const env = { NO_COLOR: "1" };
  const { success, output } = await runCommand(command, PACK_BOUND_MS, { cwd, env });
  if (!success) throw new Error(`deno pack failed: ${output}`);
  return readTar(gunzipSync(await readFile(archive)));
}

/** The documentation, by its paths in the archive. */
async function documentation(): Promise<Files> {
  const paths = filesIn("").filter((path) =>
    DOCUMENTATION.some((one) => one.test(path)) && !UNPACKED_PAGES.includes(path)
  );
  const files = paths.map(async (path) =>
    [`package/${path}`, await readFile(ROOT + path)] as const
  );
  return new Map(await Promise.all(files));
}

/** A completed package. */
export interface CompletePackage {
  readonly manifest: PackedManifest;
  readonly files: Files;
}

/** Completes what `deno pack` has packed, with the documentation. */
export function completePackage(packed: Files): CompletePackage {
  const read = JSON.parse(Buffer.from(packed.get(MANIFEST)!).toString()) as PackedManifest;
  const manifest = completeManifest(read);
  const files = new Map(packed).set(
    MANIFEST,
    Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`),
  );
  const targets = {
    isPacked: (path: string) => packed.has(`package/${path}`),
    repository: REPOSITORY,
    version: manifest.version,
  };
  for (const [path, bytes] of packed) {
    if (!PAGE.test(path)) continue;
    const page = path.slice("package/".length);
    files.set(path, Buffer.from(packedLinks(page, Buffer.from(bytes).toString(), targets)));
  }
  return { manifest, files };
}

/** Replaces a folder as a whole: a reader never sees half a package. */
async function replaceFolder(folder: string, files: Files): Promise<void> {
  const fresh = `${folder}.new`;
  await rm(fresh, { recursive: true, force: true });
  for (const [path, bytes] of files) {
    await mkdir(dirname(`${fresh}/${path}`), { recursive: true });
    await writeFile(`${fresh}/${path}`, bytes);
  }
  await rm(folder, { recursive: true, force: true });
  await rename(fresh, folder);
}
