/** `openLock()` of the npm package loads the client that is installed, and names one that is missing. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { installPackages, installSkip } from "../../testing/npm/install.ts";
import { installedProject, linkedProject, PACKAGE } from "../../testing/npm/project.ts";
import {
  BUN,
  KOFFI,
  NODE_22,
  programOf,
  RUNTIMES,
  runtimeSkip,
} from "../../testing/npm/runtimes.ts";
import { openLock } from "../../open/mod.ts";
import { fileUrl, printedPid, STUBBORN } from "../../testing/command/holdfast.ts";
import { spawnProcess } from "../../testing/runtime/processes.ts";
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

/** Each word of the command that looks at locks, and what it prints while "nightly" is held. */
const LOOKS = [
  ["show nightly", /^held\n {2}holder {2}web-1, token \d+, [\d.]+ s left$/m],
  ["list", /^nightly {2}held by web-1, token \d+, [\d.]+ s left$/m],
  ["release --steal other", /^free$/m],
  ["doctor", /^ok {3}round trip: /m],
] as const;

test("holdfast of the npm package shows, lists, releases and examines what it runs, on Node and Bun", async () => {
  await using server = await startRedis();
  const folder = `${await installPackages([CLIENTS.redis])}/redis`;
  await using project = await linkedProject({ redis: folder });
  for (const runtime of [NODE_22, BUN]) {
    const holdfast = [
      await programOf(runtime),
      `${project.folder}/node_modules/${PACKAGE}/command/main.js`,
    ];
    const looks = LOOKS.map(([words]) => `${holdfast.join(" ")} ${words}`).join("; ");
    const run = ["run", "--label", "web-1", "nightly", "--", "sh", "-c", looks];
    const { output } = await project.run([...holdfast, ...run], { HOLDFAST_URL: server.url });
    for (const [words, prints] of LOOKS) assertMatch(output, prints, `${runtime.name}: ${words}`);
  }
});

const koffiSkip = skip ?? await installSkip([KOFFI]);
Deno.test({
  name: "holdfast run of the npm package, killed by force: its command keeps a file lock" +
    (koffiSkip === undefined ? "" : ` [skipped: ${koffiSkip}]`),
  ignore: koffiSkip !== undefined || Deno.build.os !== "linux",
  async fn() {
    await using files = await fileUrl();
    await using locks = await openLock(files.url);
    const folder = `${await installPackages([KOFFI])}/koffi`;
    await using project = await linkedProject({ koffi: folder });
    const main = `${project.folder}/node_modules/${PACKAGE}/command/main.js`;
    for (const runtime of [NODE_22, BUN]) {
      const command = [await programOf(runtime), main, "run", "a", "--", ...STUBBORN];
      const env = { HOLDFAST_URL: files.url };
      const holdfast = spawnProcess(command, { env, stdout: "pipe", stderr: "inherit" });
      const { pid } = await printedPid(holdfast);
      holdfast.kill("SIGKILL");
      await holdfast.ended;
      assertEquals(await locks.tryAcquire("a"), null, runtime.name);
      Deno.kill(pid, "SIGKILL");
      await using _lease = await locks.acquire("a");
    }
  },
});

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

test("the npx line of docs/open.md names the client, which npx does not install otherwise", async () => {
  const page = await Deno.readTextFile(new URL("../../docs/open.md", import.meta.url));
  assertMatch(page, /^npx -p @holdfast\/lock -p redis holdfast run --at redis:/m);
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
