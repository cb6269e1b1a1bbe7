/**
 * The workflows of `.github`: their actions cannot change under us, and they get no right unasked.
 */
import { assert, assertEquals } from "@std/assert";

const FOLDER = new URL("../../.github/workflows/", import.meta.url);
const WORKFLOWS = [...Deno.readDirSync(FOLDER)].map(({ name }) => name).toSorted();

function linesOf(name: string): string[] {
  return Deno.readTextFileSync(new URL(name, FOLDER)).split("\n");
}

Deno.test("each action of a workflow is pinned by a commit, with its tag beside it", () => {
  const uses = WORKFLOWS.flatMap((name) => linesOf(name).filter((line) => /\buses:/.test(line)));
  assert(uses.length >= 10, `${uses.length}: too few`);
  const pinned = /^ +(?:- )?uses: [\w-]+\/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/;
  assertEquals(uses.filter((line) => !pinned.test(line)), []);
});

Deno.test("one action has one commit in all workflows", () => {
  const commits = new Map<string, Set<string>>();
  for (const line of WORKFLOWS.flatMap(linesOf)) {
    const [, action, commit] = /uses: (\S+)@(\S+)/.exec(line) ?? [];
    if (action === undefined || commit === undefined) continue;
    commits.set(action, (commits.get(action) ?? new Set()).add(commit));
  }
  assertEquals([...commits].filter(([, { size }]) => size > 1), []);
});

Deno.test("each workflow says which rights its token has", () => {
  const silent = WORKFLOWS.filter((name) =>
    !linesOf(name).some((line) => /^permissions:( \{\})?$/.test(line))
  );
  assertEquals(silent, []);
});

Deno.test("a scheduled workflow runs the soak", () => {
  const scheduled = WORKFLOWS.filter((name) =>
    linesOf(name).some((line) => line === "  schedule:")
  );
  const commands = scheduled.flatMap(linesOf).map((line) => line.trim());
  assert(commands.includes("- run: deno task soak"), scheduled.join());
});

Deno.test("each container is pinned by digest, with its tag beside it", () => {
  const compose = Deno.readTextFileSync(new URL("../../compose.yaml", FOLDER)).split("\n");
  const images = [...WORKFLOWS.flatMap(linesOf), ...compose]
    .flatMap((line) => /^ +(?:image|container): (.+)$/.exec(line)?.[1] ?? []);
  assert(images.length >= 6, `${images.length}: too few`);
  const pinned = /^(?:[\w/]+:[\w.-]+@sha256:[0-9a-f]{64}|\$\{\{ matrix\.image \}\})$/;
  assertEquals(images.filter((image) => !pinned.test(image)), []);
});

Deno.test("Renovate updates actions, images and packages, also where only its expressions find them", () => {
  const { extends: presets, customManagers } = JSON.parse(
    Deno.readTextFileSync(new URL("../renovate.json", FOLDER)),
  ) as {
    extends: string[];
    customManagers: { managerFilePatterns: string[]; matchStrings: string[] }[];
  };
  assert(presets.includes("docker:pinDigests"), presets.join());
  // Renovate's engine has no lookaround.
  const patterns = customManagers.flatMap(({ matchStrings }) => matchStrings);
  assertEquals(patterns.filter((pattern) => /\(\?(?:=|!|<=|<!)/.test(pattern)), []);
  const found = (path: string) => {
    const text = Deno.readTextFileSync(new URL(`../../${path}`, FOLDER));
    return customManagers
      .filter(({ managerFilePatterns }) =>
        managerFilePatterns.some((pattern) => new RegExp(pattern.slice(1, -1)).test(path))
      )
      .flatMap(({ matchStrings }) => matchStrings)
      .flatMap((pattern) => [...text.matchAll(new RegExp(pattern, "g"))])
      .map(({ groups = {} }) => `${groups["depName"] ?? "deno"} ${groups["currentValue"]}`);
  };
  assert(found(".github/workflows/soak.yml").includes("debian trixie-slim"));
  assert(found(".github/workflows/ci.yml").some((one) => /^deno \d/.test(one)));
  assert(found("testing/npm/bundlers.ts").some((one) => /^@rspack\/core \d/.test(one)));
  assert(found("README.md").some((one) => /^deno \d/.test(one)));
});
