/** The ZooKeeper client is an optional peer of the npm package: `entries_test.ts` runs without it. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { installPackages, installSkip } from "../../testing/npm/install.ts";
import { linkedProject } from "../../testing/npm/project.ts";
import { programOf, RUNTIMES, runtimeSkip } from "../../testing/npm/runtimes.ts";
import { startZooKeeper } from "../../testing/servers/zookeeper.ts";

const CLIENT = "node-zookeeper-client";
const SPEC = `${CLIENT}@1.1.3`;
const ESBUILD = "esbuild@0.28.2";
const skips = await Promise.all(RUNTIMES.map(runtimeSkip));
const skip = skips.find((reason) => reason !== undefined) ?? await installSkip([SPEC]) ??
  await installSkip([ESBUILD]);

function test(name: string, fn: () => Promise<void>): void {
  const reason = skip === undefined ? "" : ` [skipped: ${skip}]`;
  Deno.test({ name: name + reason, ignore: skip !== undefined, fn });
}

async function clientFolder(): Promise<string> {
  return `${await installPackages([SPEC])}/${CLIENT}`;
}

test("ZooKeeperLock of the npm package works with the client installed, also in a CommonJS bundle", async () => {
  await using server = await startZooKeeper();
  await using project = await linkedProject({ [CLIENT]: await clientFolder() });
  const script = await project.copy("zookeeper.mjs");
  const bundle = `${project.folder}/bundle.cjs`;
  const esbuild = `${await installPackages([ESBUILD])}/esbuild/bin/esbuild`;
  const options = ["--bundle", "--platform=node", "--format=cjs", `--outfile=${bundle}`];
  const build = await project.run([esbuild, script, ...options]);
  assert(build.success, build.output);
  const programs = await Promise.all(RUNTIMES.map(programOf));
  const commands = [...programs.map((program) => [program, script]), [programs[0]!, bundle]];
  for (const command of commands) {
    const { output } = await project.run([...command, server.connectString]);
    assertEquals(output.trim(), "ok", command.join(" "));
  }
});

test("new ZooKeeperLock() of the npm package throws when the client has another version", async () => {
  await using project = await linkedProject();
  await Deno.mkdir(`${project.folder}/node_modules/${CLIENT}`);
  const manifest = JSON.stringify({ name: CLIENT, version: "1.1.2", main: "index.js" });
  await project.write(`node_modules/${CLIENT}/package.json`, manifest);
  await project.write(`node_modules/${CLIENT}/index.js`, "module.exports = {};");
  const script = await project.copy("zookeeper.mjs");
  const { success, output } = await project.run([await programOf(RUNTIMES[0]!), script, "h:1"]);
  assert(!success);
  assertMatch(output, /LockSetupError: .* 1\.1\.2: install it with npm install .*@1\.1\.3/);
});

test("new ZooKeeperLock() of the npm package throws what the client threw when it cannot be loaded", async () => {
  await using project = await linkedProject();
  await Deno.mkdir(`${project.folder}/node_modules/${CLIENT}`);
  const manifest = JSON.stringify({ name: CLIENT, version: "1.1.3", main: "index.js" });
  await project.write(`node_modules/${CLIENT}/package.json`, manifest);
  await project.write(`node_modules/${CLIENT}/index.js`, `require("no-such-package");`);
  const script = await project.copy("zookeeper.mjs");
  const { success, output } = await project.run([await programOf(RUNTIMES[0]!), script, "h:1"]);
  assert(!success);
  assertMatch(output, /LockSetupError: .* cannot be loaded: Cannot find module 'no-such-package'/);
  assertMatch(output, /\[cause\]: Error: Cannot find module 'no-such-package'/);
});
