import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { isAlive } from "../../../testing/servers/process_checks.ts";
import { waitUntil } from "../../../testing/servers/wait.ts";

const RUNNER = new URL("../../../testing/runner/main.ts", import.meta.url).href;

function runner(args: string[]): Deno.Command {
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", RUNNER, ...args],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  });
}

/**
 * Runs `deno task test` on a test file with this text; resolves with its exit code and output. The text is
 * JavaScript, if it is not said to be TypeScript: the type check takes most of the time.
 */
async function runOn(text: string, args: string[] = [], ending = "js") {
  const folder = await Deno.makeTempDir({ prefix: "holdfast-" });
  const file = `${folder}/some_test.${ending}`;
  await Deno.writeTextFile(file, text);
  const { code, stdout, stderr } = await runner([file, ...args]).output();
  await Deno.remove(folder, { recursive: true });
  const decoder = new TextDecoder();
  const lines = decoder.decode(stdout).trimEnd().split("\n");
  return { code, lines, lastLine: lines.at(-1), errors: decoder.decode(stderr) };
}

Deno.test("deno task test prints counts and skipped tests and exits with 0", async () => {
  const { code, lines, lastLine } = await runOn(`
    import { assertEquals } from "@std/assert";
    import { delay } from "@std/async";
    Deno.test("a", async () => { await delay(1); assertEquals(1, 1); });
    Deno.test("b", async (t) => { await t.step("c", () => {}); });
    Deno.test.ignore("needs the moon", () => {});
  `);
  assertEquals(lastLine, "2 passed, 0 failed, 1 skipped");
  assert(lines.includes("skipped: needs the moon"));
  assertEquals(code, 0);
});

Deno.test("deno task test exits with 1 when a test fails", async () => {
  const { code, lastLine } = await runOn(`
    Deno.test("a", () => {});
    Deno.test("b", () => { throw new Error("no"); });
  `);
  assertEquals([code, lastLine], [1, "1 passed, 1 failed"]);
});

Deno.test("deno task test exits with 1 for type errors, failed imports and leaks", async () => {
  for (
    const [ending, text] of [["ts", `const a: number = "";`], ["js", `import "./missing.js";`]]
  ) {
    const { code, lastLine } = await runOn(`${text} Deno.test("a", () => {});`, [], ending);
    assertEquals([code, lastLine], [1, "0 passed, 1 failed"], text);
  }
  const leak = await runOn(`Deno.test("a", () => { setTimeout(() => {}, 60_000); });`);
  assertEquals([leak.code, leak.lastLine], [1, "0 passed, 1 failed"]);
});

Deno.test("deno task test exits with 1 when no test ran", async () => {
  const { code, lastLine, errors } = await runOn(`Deno.test("a", () => {});`, ["--filter", "b"]);
  assertEquals([code, lastLine], [1, "0 passed, 0 failed"]);
  assertStringIncludes(errors, "No test ran");
});

Deno.test("deno task test --filter takes a text or a regular expression", async () => {
  const text = `Deno.test("one", () => {}); Deno.test("two", () => {});`;
  assertEquals((await runOn(text, ["--filter", "tw"])).lastLine, "1 passed, 0 failed");
  assertEquals((await runOn(text, ["--filter", "/^(one|two)$/"])).lastLine, "2 passed, 0 failed");
});

Deno.test("deno task test exits with 2 for invalid arguments", async () => {
  const bad = [["--only", "postgres"], ["--only", ""], ["--onyl", "redis"], ["no/such_test.ts"]];
  bad.push(["--servers", "redis=/no/such"], ["--servers", "etcd=/bin/sh"], ["--servers", ""]);
  for (const args of bad) {
    const { code, stderr } = await runner(args).output();
    assertEquals(code, 2, args.join(" "));
    assertStringIncludes(new TextDecoder().decode(stderr), "Usage: deno task test");
  }
});

/** A program that answers `--version` like a Redis server; nothing starts it as one. */
async function writeProgram(path: string, version: string): Promise<void> {
  await Deno.writeTextFile(path, `#!/bin/sh\necho "${version}"\n`, { mode: 0o755 });
}

Deno.test("deno task test --servers runs tests of Redis with each program, and counts for each", async () => {
  const folder = await Deno.makeTempDir({ prefix: "holdfast-" });
  await writeProgram(`${folder}/a`, "Redis server v=6.2.16 sha=00000000:0 bits=64");
  await writeProgram(`${folder}/b`, "Valkey server v=8.1.1 sha=00000000:0 bits=64");
  await Deno.mkdir(`${folder}/tests/redis`, { recursive: true });
  await Deno.writeTextFile(
    `${folder}/tests/redis/some_test.ts`,
    `Deno.test("is not b", () => {
      if (Deno.env.get("HOLDFAST_REDIS_SOURCE")!.includes("/b")) throw new Error("It is b");
    });
    Deno.test("always", () => {});`,
  );
  await Deno.writeTextFile(`${folder}/tests/other_test.ts`, `Deno.test("other", () => {});`);
  const servers = ["--servers", `redis=${folder}/a,redis=${folder}/b`];
  const { code, stdout } = await runner([`${folder}/tests`, ...servers]).output();
  const lines = new TextDecoder().decode(stdout).trimEnd().split("\n");
  assertEquals(lines.slice(-4), [
    `Redis 6.2.16 (${folder}/a): 2 passed, 0 failed`,
    `Valkey 8.1.1 (${folder}/b): 1 passed, 1 failed`,
    "other tests: 1 passed, 0 failed",
    "4 passed, 1 failed",
  ]);
  assertEquals(code, 1);
  const one = await runner([`${folder}/tests`, "--servers", `redis=${folder}/a`]).output();
  const last = new TextDecoder().decode(one.stdout).trimEnd().split("\n").slice(-2);
  assertEquals(last, [`Redis 6.2.16 (${folder}/a): 3 passed, 0 failed`, "3 passed, 0 failed"]);
  await Deno.remove(folder, { recursive: true });
});

for (const [signal, exitCode] of [["SIGINT", 130], ["SIGTERM", 143], ["SIGKILL", 137]] as const) {
  Deno.test(`deno task test ends its tests on ${signal}`, async () => {
    const folder = await Deno.makeTempDir({ prefix: "holdfast-" });
    const pidFile = JSON.stringify(`${folder}/pid`);
    await Deno.writeTextFile(
      `${folder}/endless_test.js`,
      `Deno.test("endless", async () => {
        Deno.writeTextFileSync(${pidFile}, String(Deno.pid));
        await new Promise((resolve) => setTimeout(resolve, 600_000));
      });`,
    );
    const child = runner([`${folder}/endless_test.js`]).spawn();
    const output = child.output();
    const readPid = () => Deno.readTextFile(`${folder}/pid`).then(Number, () => 0);
    await waitUntil("the test runs", async () => await readPid() > 0);
    const pid = await readPid();
    child.kill(signal);
    assertEquals((await output).code, exitCode);
    await waitUntil("the tests are gone", async () => !await isAlive(pid));
    await Deno.remove(folder, { recursive: true });
  });
}

Deno.test("deno task test counts the tests of other files when one kills its process", async () => {
  const folder = await Deno.makeTempDir({ prefix: "holdfast-" });
  await Deno.writeTextFile(`${folder}/a_test.js`, `Deno.test("a", () => {});`);
  await Deno.writeTextFile(
    `${folder}/b_test.js`,
    `Deno.test("b", () => Deno.kill(Deno.pid, "SIGKILL"));`,
  );
  const { code, stdout } = await runner([`${folder}/a_test.js`, `${folder}/b_test.js`]).output();
  const lines = new TextDecoder().decode(stdout).trimEnd().split("\n");
  assertEquals([code, lines.at(-1)], [1, "1 passed, 1 failed"]);
  assert(lines.includes(`failed: ${folder}/b_test.js (exit code 137)`), lines.join("\n"));
  await Deno.remove(folder, { recursive: true });
});
