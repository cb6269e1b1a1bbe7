/** The workflow that publishes: nobody has run it, so these tests read it. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { REPOSITORY } from "../../tools/npm/project.ts";

const WORKFLOW = Deno.readTextFileSync(".github/workflows/publish.yml");
const JOBS = new Map(
  WORKFLOW.split(/^jobs:$/m)[1]!.split(/^ {2}(?=\w+:$)/m).slice(1)
    .map((text) => [text.slice(0, text.indexOf(":")), text]),
);

/** The jobs that may mint a token, and so publish. */
const MINTING = [...JOBS].filter(([, job]) => job.includes("id-token: write"));

function job(name: string): string {
  const text = JOBS.get(name);
  assert(text !== undefined, `no job ${name}`);
  return text;
}

/** The commands of a job, and its actions. */
function stepsOf(text: string): string[] {
  return [...text.matchAll(/^ +(?:- )?(?:run|uses): (.+)$/gm)].map(([, step = ""]) => step);
}

Deno.test("publish.yml publishes a tag to both registries, after the gate and all tests", () => {
  // No pre-releases: npm would refuse one after JSR has taken it.
  assert(WORKFLOW.includes('\non:\n  push:\n    tags: ["v[0-9]+.[0-9]+.[0-9]+"]\n\n'));
  assertEquals([...JOBS.keys()], ["test", "package", "jsr", "npm"]);
  const test = job("test");
  assert(test.indexOf("task ok") < test.indexOf("task test"));
  for (
    const [name, needed] of [
      ["package", "test"],
      ["jsr", "[test, package]"],
      ["npm", "package"],
    ] as const
  ) {
    assert(job(name).includes(`\n    needs: ${needed}\n`), name);
  }
});

Deno.test("publish.yml runs all tests where ci.yml does, and refuses pages that deny the release", () => {
  const image = /^ {4}container: (debian:bookworm-slim@sha256:[0-9a-f]{64})$/m.exec(job("test"))
    ?.[1];
  assert(image !== undefined);
  assert(Deno.readTextFileSync(".github/workflows/ci.yml").includes(image));
  const refused = /! grep -nE '([^']+)' README.md README.zh-CN.md CHANGELOG.md/.exec(job("test"));
  const words = new RegExp(refused![1]!.replaceAll("\\\\", "\\"));
  for (const denial of ["**Not released yet:**", "**尚未发布：**", "0.1.0 (unreleased)"]) {
    assertMatch(denial, words);
  }
});

Deno.test("publish.yml: only jobs that publish may mint a token, in an environment with a reviewer", () => {
  assertEquals(MINTING.map(([name]) => name), ["jsr", "npm"]);
  for (const [name, text] of MINTING) {
    assertMatch(text, /^ {4}environment: publish$/m);
    assertMatch(stepsOf(text).at(-1)!, name === "jsr" ? /^\$DENO publish$/ : /^npm publish /);
  }
  assertMatch(job("npm"), /npm publish \S+ --provenance .*--ignore-scripts$/m);
});

Deno.test("publish.yml: a job that may mint a token runs no code of the project or of its dependencies", () => {
  const allowed = [
    /^actions\/(checkout|setup-node|download-artifact)@/,
    /^npm ci --ignore-scripts --prefix \.github\/publish$/,
    /^\$DENO publish$/,
    /^test "\$\(sha256sum < \*\.tgz \| cut -d ' ' -f 1\)" = "\$DIGEST"$/,
    /^npm publish \.\/\*\.tgz --provenance --access public --ignore-scripts$/,
  ];
  const steps = MINTING.flatMap(([, text]) => stepsOf(text));
  assertEquals(steps.filter((step) => !allowed.some((one) => one.test(step))), []);
});

Deno.test("publish.yml builds the npm package without the right to publish, and hands it over with its digest", () => {
  const [made, published] = [job("package"), job("npm")];
  assertMatch(made, /task npm$/m);
  assertMatch(made, /^ {4}permissions:\n {6}contents: read\n {4}\w/m);
  assertMatch(
    made,
    /uses: actions\/upload-artifact@[^]*name: package\n[^]*if-no-files-found: error/,
  );
  assert(!published.includes("actions/checkout@"), "it publishes what was made");
  assertMatch(published, /uses: actions\/download-artifact@[^]*name: package\n/);
  assertMatch(published, /DIGEST: \$\{\{ needs\.package\.outputs\.digest \}\}$/m);
});

Deno.test("publish.yml builds and publishes the commit that was tested", () => {
  assertMatch(job("test"), /commit: \$\{\{ steps\.commit\.outputs\.commit \}\}/);
  assertMatch(job("test"), /run: echo "commit=\$\(git rev-parse HEAD\)" >> "\$GITHUB_OUTPUT"/);
  for (const name of ["package", "jsr"]) {
    assertMatch(
      job(name),
      /actions\/checkout@[^]*?\n {10}ref: \$\{\{ needs\.test\.outputs\.commit \}\}/,
    );
  }
  assert(!WORKFLOW.includes("--allow-dirty"));
});

Deno.test("publish.yml takes Deno by its digests, and the packages of a frozen lock file", () => {
  assert(!WORKFLOW.includes("npx"), "npx takes what the registry has");
  for (const name of ["test", "package"]) {
    const steps = stepsOf(job(name));
    const installed = steps.indexOf("npm ci --ignore-scripts --prefix .github/publish");
    const frozen = steps.indexOf("$DENO install --frozen");
    assert(0 < installed && installed < frozen, name);
    const uses = steps.findIndex((step) => /^\$DENO task/.test(step));
    assert(frozen < uses, name);
  }
  const { packages } = JSON.parse(Deno.readTextFileSync(".github/publish/package-lock.json")) as {
    packages: Record<string, { integrity?: string }>;
  };
  const installed = Object.entries(packages).filter(([path]) => path !== "");
  assert(installed.length > 1);
  assertEquals(installed.filter(([, { integrity }]) => !integrity?.startsWith("sha512-")), []);
});

Deno.test("publish.yml has no address of a repository, and no secrets", () => {
  assert(!/github\.com|\{ *secrets\./.test(WORKFLOW));
  // The job "package" compares this with its repository.
  assertMatch(REPOSITORY, /^https:\/\/github\.com\/[^/]+\/[^/]+$/);
});

Deno.test("publish.yml uses the Deno that the documentation names", () => {
  const { dependencies } = JSON.parse(Deno.readTextFileSync(".github/publish/package.json")) as {
    dependencies: { deno: string };
  };
  for (const page of ["README.md", "CONTRIBUTING.md"]) {
    const named = Deno.readTextFileSync(page).match(/deno@\d+\.\d+\.\d+/g);
    assertEquals([...new Set(named)], [`deno@${dependencies.deno}`], page);
  }
});
