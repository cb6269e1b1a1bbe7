import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { plant } from "../../../testing/runner/planted.ts";

/** Fails when it runs for the first time. */
const flaky = (name: string, failure = `throw new Error("first ${name}")`) => `
  Deno.test("${name} (a/b)", () => {
    const file = import.meta.dirname + "/${name}";
    try {
      Deno.statSync(file);
      return;
    } catch {
      Deno.writeTextFileSync(file, "");
    }
    ${failure};
  });`;
const STEADY = `Deno.test("steady", () => {});`;

Deno.test("deno task test names a test that passes at the second try, and --strict fails", async () => {
  await using planted = await plant({
    "a_test.js": flaky("one") + STEADY,
    "b_test.js": flaky("two", `Deno.kill(Deno.pid, "SIGKILL")`) + STEADY,
    "c_test.js": flaky("three", "setTimeout(() => {}, 60_000)") + STEADY,
  });
  const { folder } = planted;
  const { code, lines } = await planted.run(["--seed", "7"]);
  assertEquals(code, 0, lines.join("\n"));
  assertEquals(lines.slice(-2), ["3 at the second try", "6 passed, 0 failed"]);
  const again = lines.filter((line) => line.startsWith("again ")).map((line) =>
    line.replace(/, \d+\.\d s$/, "")
  );
  assertEquals(again.sort(), [
    `again  ${folder}/a_test.js: 1 test`,
    `again  ${folder}/b_test.js: 2 tests`,
    `again  ${folder}/c_test.js: 2 tests`,
  ]);
  const named = lines.filter((line) => line.startsWith("passed at the second try: ")).sort();
  assertEquals(named.map((line) => line.slice("passed at the second try: ".length)), [
    `${folder}/a_test.js => one (a/b) (seed 7)`,
    `${folder}/b_test.js (the file as a whole) (seed 7)`,
    `${folder}/c_test.js => three (a/b) (seed 7)`,
  ]);
  const last = lines.slice(lines.findIndex((line) => line.startsWith("passed at"))).join("\n");
  assertStringIncludes(last, "Error: first one");

  await Deno.remove(`${folder}/one`);
  const strict = await planted.run(["--strict"], ["a_test.js"]);
  assertEquals([strict.code, strict.lastLine], [1, "1 passed, 1 failed"]);
});

Deno.test("deno task test fails when tests fail at both tries, or more than three at the first", async () => {
  await using planted = await plant({
    "a_test.js": `Deno.test("never", () => { throw new Error("no"); });` + STEADY,
    "b_test.js": ["one", "two", "three", "four"].map((name) => flaky(name)).join(""),
  });
  const failed = await planted.run([], ["a_test.js"]);
  assertEquals([failed.code, failed.lastLine], [1, "1 passed, 1 failed"]);
  const { code, lines } = await planted.run([], ["b_test.js"]);
  assertEquals([code, ...lines.slice(-2)], [1, "4 at the second try", "4 passed, 0 failed"]);
  assert(lines.includes("This run fails: more than 3 tests needed a second try"), lines.join("\n"));
});
