import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { plant } from "../../../testing/runner/planted.ts";
import { runFile } from "../../../testing/runner/test_files.ts";
import type { Failure } from "../../../testing/runner/summary.ts";
import { TimeFactor } from "../../../testing/runner/time_factor.ts";
import { isAlive } from "../../../testing/servers/process_checks.ts";
import { waitUntil } from "../../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS } from "../../../testing/time.ts";

/** Runs a test file with this text. */
async function runOn(text: string, args: string[] = [], ending = "js") {
  await using planted = await plant({ [`some_test.${ending}`]: text });
  return await planted.run(args);
}

Deno.test("deno task test prints counts and skipped tests and exits with 0", async () => {
  const { code, lines, lastLine, log } = await runOn(`
    import { assertEquals } from "@std/assert";
    import { delay } from "@std/async";
    Deno.test("a", async () => { await delay(1); assertEquals(1, 1); });
    Deno.test("b", async (t) => { await t.step("c", () => {}); });
    Deno.test.ignore("d [skipped: it needs the moon]", () => {});
  `);
  assertEquals(lastLine, "2 passed, 0 failed, 1 skipped");
  assert(lines.includes("skipped: 1 (it needs the moon: 1)"), lines.join("\n"));
  assertStringIncludes(log, "\nskipped: d [skipped: it needs the moon]\n");
  assertEquals(code, 0);
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
  await using planted = await plant({
    "some_test.js": `Deno.test("one", () => {}); Deno.test("two", () => {});`,
  });
  assertEquals((await planted.run(["--filter", "tw"])).lastLine, "1 passed, 0 failed");
  assertEquals((await planted.run(["--filter", "/^(one|two)$/"])).lastLine, "2 passed, 0 failed");
});

Deno.test("deno task test exits with 2 for invalid arguments", async () => {
  await using planted = await plant({});
  const bad = [["--only", "postgres"], ["--onyl", "redis"], ["no/such_test.ts"], ["--repeat", "0"]];
  for (const args of bad) {
    const { code, errors } = await planted.run(args);
    assertEquals(code, 2, args.join(" "));
    assertStringIncludes(errors, "Usage: deno task test");
  }
});

Deno.test("deno task test prints a line for each file, its failures in full, and the rest to the log", async () => {
  await using planted = await plant({
    "a_test.js": `Deno.test("a", () => console.log("printed by a"));`,
    "b_test.js": `Deno.test("b", () => { console.log("printed by b"); throw new Error("no b"); });
      Deno.test("c", () => console.log("printed by c"));`,
    "d_test.js": `Deno.test("d", () => Deno.kill(Deno.pid, "SIGKILL"));`,
    "e_test.js": `Deno.test.ignore("e [skipped: soak only]", () => {});`,
  });
  const { folder } = planted;
  const { code, lines, log } = await planted.run();
  const printed = lines.join("\n");
  assertEquals([code, lines.at(-1)], [1, "2 passed, 2 failed, 1 skipped"]);
  assert(!printed.includes("e_test.js"));
  assert(lines.includes("files without a test in this run, named in the log: 1"), printed);
  assertMatch(log, /e_test\.js: 0 tests, 1 skipped/);
  assertMatch(printed, /^ok {5}\S*\/a_test\.js: 1 test, \d+\.\d s$/m);
  assertMatch(printed, /^FAILED .*\/b_test\.js: 2 tests, 1 failed, \d+\.\d s$/m);
  assertStringIncludes(printed, "printed by b");
  assertStringIncludes(printed, "Error: no b");
  assertStringIncludes(printed, `failed: ${folder}/b_test.js => b\n`);
  assertStringIncludes(printed, `failed: ${folder}/d_test.js (the file as a whole)\n`);
  assertStringIncludes(printed, "exit code 137");
  assert(!printed.includes("printed by a") && !printed.includes("printed by c"), printed);
  for (const line of [...lines, "printed by a", "printed by c"]) assertStringIncludes(log, line);
  assertMatch(lines.at(-2)!, /^Log: /);
  const verbose = await planted.run(["--verbose"], ["a_test.js", "b_test.js"]);
  assertStringIncludes(verbose.lines.join("\n"), "printed by c");
});

Deno.test("deno task test ends a file that does not end, and names it as failed", async () => {
  await using planted = await plant({
    "endless_test.js": `Deno.test("endless", () => {
      console.log("begun");
      return new Promise((resolve) => setTimeout(resolve, 600_000));
    });`,
  });
  const { signal } = new AbortController();
  const options = { args: ["-A"], cwd: planted.folder, signal, filter: undefined };
  const factor = new TimeFactor();
  const { file, summary } = await runFile(`${planted.folder}/endless_test.js`, {
    ...options,
    ...{ factor, boundMs: 1_000 },
  });
  assertEquals([file, summary.failed], ["endless_test.js", 1]);
  const [{ test, text }] = summary.failures as [Failure];
  assertEquals(test, undefined, "the file as a whole");
  assertMatch(text, /^did not end in \d+ s$/m);
});

Deno.test("deno task test tells tests how late things happen on this machine", async () => {
  await using planted = await plant({
    "a_test.js":
      `Deno.test("a", () => console.log("[" + Deno.env.get("HOLDFAST_TIME_FACTOR") + "]"));`,
  });
  const { lines } = await planted.run(["--strict"]);
  const printed = lines.join("\n");
  const factor = Number(/\[(\S+)\]/.exec(printed)?.[1]);
  assert(factor >= 1 && factor <= 4, printed);
  assertMatch(printed, /^Time factor: \d/m);
  assertMatch(printed, /; time factor: \d(\.\d)?( to \d(\.\d)?)?; /);
});

/** A program that answers `--version` like a Redis server; nothing starts it as one. */
async function writeProgram(path: string, version: string): Promise<void> {
  await Deno.writeTextFile(path, `#!/bin/sh\necho "${version}"\n`, { mode: 0o755 });
}

Deno.test("deno task test --servers runs tests of Redis with each program, and counts for each", async () => {
  await using planted = await plant({
    "tests/redis/some_test.js": `Deno.test("is not b", () => {
      if (Deno.env.get("HOLDFAST_REDIS_SOURCE").includes("/b")) throw new Error("It is b");
    });
    Deno.test("always", () => {});`,
    "tests/other_test.js": `Deno.test("other", () => {});`,
  });
  const { folder } = planted;
  await writeProgram(`${folder}/a`, "Redis server v=6.2.16 sha=00000000:0 bits=64");
  await writeProgram(`${folder}/b`, "Valkey server v=8.1.1 sha=00000000:0 bits=64");
  const both = await planted.run(["--servers", `redis=${folder}/a,redis=${folder}/b`]);
  assertEquals(both.lines.slice(-4), [
    `Redis 6.2.16 (${folder}/a): 2 passed, 0 failed`,
    `Valkey 8.1.1 (${folder}/b): 1 passed, 1 failed`,
    "other tests: 1 passed, 0 failed",
    "4 passed, 1 failed",
  ]);
  assertEquals(both.code, 1);
  const one = await planted.run(["--servers", `redis=${folder}/a`]);
  assertEquals(one.lines.slice(-2), [
    `Redis 6.2.16 (${folder}/a): 3 passed, 0 failed`,
    "3 passed, 0 failed",
  ]);
});

for (const [signal, exitCode] of [["SIGINT", 130], ["SIGTERM", 143], ["SIGKILL", 137]] as const) {
  Deno.test(`deno task test ends its tests and the stress on ${signal}`, async () => {
    await using planted = await plant({
      "endless_test.js": `Deno.test("endless", async () => {
        Deno.writeTextFileSync(import.meta.dirname + "/pid", String(Deno.pid));
        await new Promise((resolve) => setTimeout(resolve, 600_000));
      });`,
    });
    const child = planted.start(["--stress", "disk"]);
    const readPid = () => Deno.readTextFile(`${planted.folder}/pid`).then(Number, () => 0);
    await waitUntil("the test runs", async () => await readPid() > 0, CONDITION_BOUND_MS);
    const pid = await readPid();
    // The disk writer has its own.
    const folders = () =>
      [...Deno.readDirSync(`${planted.folder}/tmp`)].filter((entry) => entry.isDirectory);
    assertEquals(folders().length, 1);
    child.kill(signal);
    child.stdout!.resume();
    child.stderr!.resume();
    assertEquals((await child.ended).code, exitCode);
    await waitUntil("the tests are gone", async () => !await isAlive(pid), CONDITION_BOUND_MS);
    await waitUntil("the stress is gone", () => folders().length === 0, CONDITION_BOUND_MS);
  });
}
