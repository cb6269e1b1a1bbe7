/** `openLock()` of the npm package loads the client that is installed, and names one that is missing. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { installPackages, installSkip } from "../../testing/npm/install.ts";
import { installedProject, linkedProject, PACKAGE } from "../../testing/npm/project.ts";
import { programOf, RUNTIMES, runtimeSkip } from "../../testing/npm/runtimes.ts";
import { startRedis } from "../../testing/servers/redis.ts";

const CLIENTS = { "redis": "redis@6.3.1", "ioredis": "ioredis@6.0.0" } as const;
const skips = await Promise.all([
  ...RUNTIMES.map(runtimeSkip),
  ...Object.values(CLIENTS).map((spec) => installSkip([spec])),
]);
const skip = skips.find((reason) => reason !== undefined);

function test(name: string, fn: () => Promise<void>): void {
  const reason = skip === undefined ? "" : ` [skipped: ${skip}]`;
  Deno.test({ name: name + reason, ignore: skip !== undefined, fn });
}

for (const [name, spec] of Object.entries(CLIENTS)) {
  test(`openLock() of the npm package takes ${name} where only that is installed`, async () => {
    await using server = await startRedis();
    const folder = `${await installPackages([spec])}/${name}`;
    await using project = await linkedProject({ [name]: folder });
    const script = await project.copy("open.mjs");
    for (const runtime of RUNTIMES) {
      const { output } = await project.run([await programOf(runtime), script, server.url]);
      assertEquals(output.trim(), "ok", runtime.name);
      const command = ["run", "nightly", "--", "sh", "-c", 'echo "$HOLDFAST_NAME"; exit 7'];
      const main = `${project.folder}/node_modules/${PACKAGE}/command/main.js`;
      const env = { HOLDFAST_URL: server.url };
      const ran = await project.run([await programOf(runtime), main, ...command], env);
      assertEquals(ran.output.trim(), "nightly", runtime.name);
      assert(!ran.success, runtime.name);
    }
  });
}

test("npx finds the command of the npm package", async () => {
  await using project = await installedProject();
  const { output } = await project.run([
    "npx",
    "--no-install",
    "-p",
    PACKAGE,
    "holdfast",
    "--help",
  ]);
  assertMatch(output, /^Usage: holdfast COMMAND/);
});

test("openLock() of the npm package names the client that is not installed", async () => {
  await using project = await linkedProject();
  const script = await project.copy("open.mjs");
  for (const runtime of RUNTIMES) {
    const program = await programOf(runtime);
    const { success, output } = await project.run([program, script, "redis://:hunter2@127.0.0.1"]);
    assert(!success, runtime.name);
    const message = "LockSetupError: Cannot open Redis: the package redis is not installed: " +
      "install it with npm install redis, or ioredis";
    assertEquals(output.trim(), message, runtime.name);
    const memory = await project.run([program, script, "memory:"]);
    assertEquals(memory.output.trim(), "ok", runtime.name);
  }
});
