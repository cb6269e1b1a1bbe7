/** The tests of `docs/testing.md` in their runners. Those of Vitest and Jest, large packages, run in the soak. */
import { assert, assertMatch } from "@std/assert";
import { readdir, readFile, symlink } from "node:fs/promises";
import process from "node:process";
import { DENO } from "../../testing/docs/snippet_runtimes.ts";
import { installPackages, installSkip } from "../../testing/npm/install.ts";
import { linkedProject } from "../../testing/npm/project.ts";
import { NODE_22, programOf, RUNTIMES, runtimeSkip } from "../../testing/npm/runtimes.ts";
import { runCommand } from "../../testing/servers/command.ts";
import { LONG_BOUND_MS } from "../../testing/time.ts";

const EXAMPLES = new URL("../../examples/testing/", import.meta.url);
const isSoak = Boolean(process.env["HOLDFAST_SOAK"]);

/** How a package runs the tests of a file. */
interface Runner {
  readonly spec: string;
  readonly file: string;
  /** The arguments of Node. */
  readonly args: readonly string[];
  /** What it prints if all tests have run and passed. */
  readonly passed: RegExp;
}

const RUNNERS: readonly Runner[] = [
  {
    spec: "vitest@5.1.1",
    file: "vitest.test.js",
    args: ["node_modules/vitest/vitest.mjs", "run", "vitest.test.js"],
    passed: /Tests +5 passed \(5\)/,
  },
  {
    spec: "jest@30.5.2",
    file: "jest.test.js",
    args: ["--experimental-vm-modules", "node_modules/jest/bin/jest.js", "jest.test.js"],
    passed: /Tests: +5 passed, 5 total/,
  },
];

async function copyExamples(write: (name: string, text: string) => Promise<unknown>) {
  for (const name of await readdir(EXAMPLES)) {
    await write(name, await readFile(new URL(name, EXAMPLES), "utf8"));
  }
  await write("package.json", JSON.stringify({ type: "module" }));
}

function suffix(skip: string | undefined): string {
  return skip === undefined ? "" : ` [skipped: ${skip}]`;
}

for (const runtime of isSoak ? RUNTIMES.filter(({ name }) => name.startsWith("Node")) : [NODE_22]) {
  const skip = await runtimeSkip(runtime);
  Deno.test({
    name: `the tests of docs/testing.md for node:test pass on ${runtime.name}${suffix(skip)}`,
    ignore: skip !== undefined,
    async fn() {
      await using project = await linkedProject();
      await copyExamples(project.write);
      const { success, output } = await project.run([
        ...[await programOf(runtime), "--test", "--test-reporter=tap", "node.test.js"],
      ]);
      assert(success, output);
      assertMatch(output, /^# pass 4$/m);
    },
  });
}

Deno.test("the tests of docs/testing.md for Deno pass", async () => {
  await using folder = await DENO.folder();
  await copyExamples((name, text) => Deno.writeTextFile(`${folder.path}/${name}`, text));
  await Deno.remove(`${folder.path}/package.json`);
  const command = [process.execPath, "test", "--no-check", "--trace-leaks", "deno_test.js"];
  const options = { cwd: folder.path, env: { NO_COLOR: "1" } };
  const { success, output } = await runCommand(command, LONG_BOUND_MS, options);
  assert(success, output);
  assertMatch(output, /4 passed/);
});

for (const { spec, file, args, passed } of isSoak ? RUNNERS : []) {
  const skip = await installSkip([spec]) ?? await runtimeSkip(NODE_22);
  Deno.test({
    name: `the tests of docs/testing.md pass in ${spec}${suffix(skip)}`,
    ignore: skip !== undefined,
    async fn() {
      await using project = await linkedProject();
      await copyExamples(project.write);
      const packages = await installPackages([spec]);
      for (const name of await readdir(packages)) {
        if (name === "@holdfast") continue;
        await symlink(`${packages}/${name}`, `${project.folder}/node_modules/${name}`);
      }
      const { success, output } = await project.run([await programOf(NODE_22), ...args], {
        NO_COLOR: "1",
      });
      assert(success, `${file}: ${output}`);
      assertMatch(output, passed);
    },
  });
}
