/** The workflow that publishes: nobody has run it, so these tests read it. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { REPOSITORY } from "../../tools/npm/project.ts";

const WORKFLOW = Deno.readTextFileSync(".github/workflows/publish.yml");
const JOBS = new Map(
  WORKFLOW.split(/^jobs:$/m)[1]!.split(/^ {2}(?=\w+:$)/m).slice(1)
    .map((text) => [text.slice(0, text.indexOf(":")), text]),
);

Deno.test("publish.yml pins each action to a commit, and names its release", () => {
  const uses = WORKFLOW.split("\n").filter((line) => line.includes("uses:"));
  assert(uses.length > 0);
  for (const line of uses) {
    assertMatch(line, /^ {6}- uses: actions\/(checkout|setup-node)@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  }
});

Deno.test("publish.yml publishes a tag to both registries, after the gate and all tests", () => {
  assertMatch(WORKFLOW, /^on:\n {2}push:\n {4}tags: \["v\*\.\*\.\*"\]\n\n/m);
  assertEquals([...JOBS.keys()], ["test", "jsr", "npm"]);
  const test = JOBS.get("test")!;
  assert(test.indexOf("task ok") < test.indexOf("task test"));
  assert(!test.includes("id-token"), "tests cannot publish");
  for (const [name, command] of [["jsr", '"$DENO" publish'], ["npm", "npm publish"]] as const) {
    const job = JOBS.get(name)!;
    assertMatch(job, /^ {4}needs: test$/m);
    assertMatch(job, /^ {6}id-token: write$/m);
    assert(job.trimEnd().split("\n").at(-1)!.includes(command), name);
  }
  assertMatch(JOBS.get("npm")!, /npm publish \S+ --provenance/);
});

Deno.test("publish.yml has no address of a repository, and no secrets", () => {
  assert(!/github\.com|\{ *secrets\./.test(WORKFLOW));
  // The npm job compares this with its repository, so it fails while there is none.
  assertMatch(REPOSITORY, /^$|^https:\/\/github\.com\/[^/]+\/[^/]+$/);
});

Deno.test("publish.yml uses the Deno that the documentation names", () => {
  const [version] = /deno@\d+\.\d+\.\d+/.exec(WORKFLOW)!;
  for (const page of ["README.md", "CONTRIBUTING.md"]) {
    const named = Deno.readTextFileSync(page).match(/deno@\d+\.\d+\.\d+/g);
    assertEquals([...new Set(named)], [version], page);
  }
});
