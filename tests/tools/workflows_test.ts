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
