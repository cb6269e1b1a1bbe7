/**
 * The table of versions in `docs/frameworks.md` is what the npm package allows, and what the tests import.
 */
import { assert, assertEquals } from "@std/assert";
import { PEERS } from "../../tools/npm/project.ts";

const ROOT = new URL("../../", import.meta.url);
const ROW = /^\| [^|]*\(`([^`]+)`\) *\| ([\d, ]+?) *\| ([\d., ]+?) *\|$/gm;
/** Next.js is not imported: the soak installs it. */
const NEXT_APP = "testing/npm/next_app.ts";

function read(file: string): string {
  return Deno.readTextFileSync(new URL(file, ROOT));
}

const rows = [...read("docs/frameworks.md").matchAll(ROW)].map(([, name, versions, tested]) => ({
  name: name!,
  versions: versions!.split(", "),
  tested: tested!.split(", "),
}));
const imports: string[] = Object.values(JSON.parse(read("deno.json")).imports);

Deno.test("docs/frameworks.md names the versions that the tests import", () => {
  assertEquals(rows.length, 7);
  const sources = [...imports, read(NEXT_APP)].join("\n");
  const wrong = rows.flatMap(({ name, tested }) => {
    return tested.map((version) => `${name}@${version}`).filter((spec) => !sources.includes(spec));
  });
  assertEquals(wrong, []);
});

Deno.test("docs/frameworks.md names the major versions that the npm package allows", () => {
  const wrong = rows.filter(({ name, versions, tested }) => {
    const peer = PEERS[name] ?? `>=${versions[0]}`;
    assert(tested.every((version) => versions.includes(version.split(".")[0]!)), name);
    return peer !== `>=${versions[0]}`;
  });
  assertEquals(wrong, []);
});
