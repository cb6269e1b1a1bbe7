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

/** Runs `deno task test` on a test file with this text; resolves with its exit code and output. */
async function runOn(text: string, ...args: string[]) {
  const folder = await Deno.makeTempDir({ prefix: "holdfast-" });
  const file = `${folder}/some_test.ts`;
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
  for (const text of [`const a: number = "";`, `import "./missing.ts";`]) {
    const { code, lastLine } = await runOn(`${text} Deno.test("a", () => {});`);
    assertEquals([code, lastLine], [1, "0 passed, 1 failed"], text);
  }
  const leak = await runOn(`Deno.test("a", () => { setTimeout(() => {}, 60_000); });`);
  assertEquals([leak.code, leak.lastLine], [1, "0 passed, 1 failed"]);
});

Deno.test("deno task test exits with 1 when no test ran", async () => {
  const { code, lastLine, errors } = await runOn(`Deno.test("a", () => {});`, "--filter", "b");
  assertEquals([code, lastLine], [1, "0 passed, 0 failed"]);
  assertStringIncludes(errors, "No test ran");
});

Deno.test("deno task test --filter takes a text or a regular expression", async () => {
  const text = `Deno.test("one", () => {}); Deno.test("two", () => {});`;
  assertEquals((await runOn(text, "--filter", "tw")).lastLine, "1 passed, 0 failed");
  assertEquals((await runOn(text, "--filter", "/^(one|two)$/")).lastLine, "2 passed, 0 failed");
});

Deno.test("deno task test exits with 2 for invalid arguments", async () => {
  const bad = [["--only", "postgres"], ["--only", ""], ["--onyl", "redis"], ["no/such_test.ts"]];
  for (const args of bad) {
    const { code, stderr } = await runner(args).output();
    assertEquals(code, 2, args.join(" "));
    assertStringIncludes(new TextDecoder().decode(stderr), "Usage: deno task test");
  }
});

for (const [signal, exitCode] of [["SIGINT", 130], ["SIGTERM", 143], ["SIGKILL", 137]] as const) {
  Deno.test(`deno task test ends its tests on ${signal}`, async () => {
    const folder = await Deno.makeTempDir({ prefix: "holdfast-" });
    const pidFile = JSON.stringify(`${folder}/pid`);
    await Deno.writeTextFile(
      `${folder}/endless_test.ts`,
      `Deno.test("endless", async () => {
        Deno.writeTextFileSync(${pidFile}, String(Deno.pid));
        await new Promise((resolve) => setTimeout(resolve, 600_000));
      });`,
    );
    const child = runner([folder]).spawn();
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
