/**
 * The npm package under test, which is made once for all test files of a run.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { filesIn } from "../../tools/architecture/imports.ts";
import { makePackage, type NpmPackage } from "../../tools/npm/pack.ts";
import { filledFolder, removeOldBeside } from "./cache.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** The package that the present sources give. */
export async function packedPackage(): Promise<NpmPackage> {
  const folder = await filledFolder(`tested/${sourceDigest()}`, async (folder) => {
    await makePackage(folder);
    await removeOldBeside(folder);
  });
  const archive = readdirSync(folder).find((name) => name.endsWith(".tgz"))!;
  const manifest = JSON.parse(readFileSync(`${folder}/package/package.json`, "utf8"));
  return { manifest, archive: `${folder}/${archive}`, folder: `${folder}/package` };
}

/** Identifies the content of all files that the package is made of or with. */
function sourceDigest(): string {
  const { publish } = JSON.parse(readFileSync(`${ROOT}deno.json`, "utf8")) as {
    publish: { include: string[] };
  };
  const sources = [
    ...publish.include,
    "docs/",
    "examples/",
    "README.zh-CN.md",
    "SECURITY.md",
    "tools/npm/",
  ];
  const hash = createHash("sha256");
  for (const file of filesIn("").filter((file) => sources.some((name) => file.startsWith(name)))) {
    hash.update(`${file}\0`).update(readFileSync(ROOT + file));
  }
  return hash.digest("hex").slice(0, 16);
}
