/** The archive itself: what it says of itself, its size, and what linters of packages say of it. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { installPackages, installSkip } from "../../testing/npm/install.ts";
import { packedPackage } from "../../testing/npm/package.ts";
import { NODE_22, programOf, runtimeSkip } from "../../testing/npm/runtimes.ts";
import { runCommand } from "../../testing/servers/command.ts";
import { isExternal, linksIn, problemOf, PROJECT } from "../../tools/docs/links.ts";
import { PEERS, REPOSITORY } from "../../tools/npm/project.ts";
import { isTooLarge, measureEntries, sizeLine } from "../../tools/npm/sizes.ts";
import { LONG_BOUND_MS } from "../../testing/time.ts";

const LINTERS = ["publint@0.3.25", "@arethetypeswrong/cli@0.18.5"];
/** The packages that only this one calls. */
const CALLED = ["koffi", "node-zookeeper-client"];
const skip = await installSkip(LINTERS) ?? await runtimeSkip(NODE_22);

async function lint(script: string, ...options: string[]): Promise<string> {
  const { archive } = await packedPackage();
  const path = `${await installPackages(LINTERS)}/${script}`;
  const command = [await programOf(NODE_22), path, ...options, archive];
  const { success, output } = await runCommand(command, LONG_BOUND_MS, { env: { NO_COLOR: "1" } });
  assert(success, output);
  return output;
}

Deno.test({
  name: "publint and attw find nothing wrong with the npm package" +
    (skip === undefined ? "" : ` [skipped: ${skip}]`),
  ignore: skip !== undefined,
  async fn() {
    assertMatch(await lint("publint/src/cli.js", "run", "--strict"), /All good!/);
    const script = "@arethetypeswrong/cli/dist/index.js";
    const report = await lint(script, "--profile", "esm-only", "--format", "json");
    const { problems } = JSON.parse(report) as { problems: Record<string, unknown[]> };
    // Problems of the settings that an ESM package does not support.
    const others = Object.keys(problems).filter((kind) =>
      !["CJSResolvesToESM", "NoResolution"].includes(kind)
    );
    assertEquals(others, []);
  },
});

Deno.test("the npm package has no dependencies, and all of its peers are optional", async () => {
  const { manifest } = await packedPackage();
  for (const kind of ["dependencies", "optionalDependencies", "bundleDependencies", "scripts"]) {
    assertEquals(manifest[kind], undefined, kind);
  }
  const peers = manifest.peerDependencies as Record<string, string>;
  assertEquals(peers["node-zookeeper-client"], "1.1.3");
  assertEquals(
    manifest.peerDependenciesMeta,
    Object.fromEntries(Object.keys(peers).map((name) => [name, { optional: true }])),
  );
  assertEquals(manifest.sideEffects, ["./command/main.js"]);
});

Deno.test("npm installs the package beside any version of a client or framework", async () => {
  const { archive } = await packedPackage();
  const app = await Deno.makeTempDir();
  const names = Object.keys(PEERS).filter((name) => !CALLED.includes(name));
  for (const name of names) {
    await Deno.mkdir(`${app}/old/${name}`, { recursive: true });
    const manifest = JSON.stringify({ name, version: "0.0.1" });
    await Deno.writeTextFile(`${app}/old/${name}/package.json`, manifest);
  }
  const dependencies = Object.fromEntries(names.map((name) => [name, `file:./old/${name}`]));
  await Deno.writeTextFile(`${app}/package.json`, JSON.stringify({ private: true, dependencies }));
  const command = ["npm", "install", "--offline", "--dry-run", "--no-audit", "--no-fund", archive];
  const { success, output } = await runCommand(command, LONG_BOUND_MS, { cwd: app });
  await Deno.remove(app, { recursive: true });
  assert(success, output);
});

Deno.test("each entry of the npm package is as small as it must be", async () => {
  const { manifest, folder } = await packedPackage();
  const work = await Deno.makeTempDir();
  const sizes = await measureEntries(manifest, folder, work);
  await Deno.remove(work, { recursive: true });
  assertEquals(sizes.length, Object.keys(manifest.exports).length);
  assertEquals(sizes.filter(isTooLarge).map(sizeLine), []);
});

Deno.test("every link of the npm package's pages leads to a file of the package, or of the repository", async () => {
  const { manifest, folder } = await packedPackage();
  const pages = [".", "docs", "examples"].flatMap((parent) =>
    [...Deno.readDirSync(`${folder}/${parent}`)].map(({ name }) =>
      `${parent}/${name}`.replace("./", "")
    )
  ).filter((path) => /\.md$|^llms\.txt$/.test(path));
  for (const page of ["README.md", "llms.txt", "docs/frameworks.md", "docs/production.md"]) {
    assert(pages.includes(page), page);
  }
  const packed = { read: (path: string) => readText(`${folder}/${path}`) };
  const versioned = new RegExp(`^${REPOSITORY}/(?:blob|raw)/v${manifest.version}/`);
  const links = pages.flatMap((page) => linksIn(page, packed.read(page)!));
  const own = links.filter(({ target }) => target.startsWith(REPOSITORY));
  assert(own.length > 20, `${own.length} links to the repository: too few`);
  // They are links of a page in the root of the repository.
  const relative = own.map((link) => ({
    ...link,
    file: "README.md",
    target: link.target.replace(versioned, ""),
  }));
  assertEquals(relative.filter(isExternal), []);
  const problems = [
    ...links.map((link) => problemOf(link, packed)),
    ...relative.map((link) => problemOf(link, PROJECT)),
  ];
  assertEquals(problems.filter((problem) => problem !== null), []);
});

function readText(path: string): string | null {
  try {
    return Deno.statSync(path).isDirectory ? "" : Deno.readTextFileSync(path);
  } catch {
    return null;
  }
}
