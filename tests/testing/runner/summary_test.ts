import { assertEquals, assertStringIncludes } from "@std/assert";
import {
  closingLine,
  readSummary,
  skippedLine,
  type Summary,
  sumOf,
} from "../../../testing/runner/summary.ts";

const NONE: Summary = { passed: 0, failed: 0, skipped: 0, skippedNames: [], failures: [] };

Deno.test("readSummary() reads the last summary line, with or without colours", () => {
  const lines = {
    "ok | 2 passed (1 step) | 0 failed | 1 ignored (1 step) (10ms)": [2, 0, 1],
    "\x1b[0m\x1b[32mok\x1b[0m | 12 passed | 0 failed \x1b[0m\x1b[38;5;245m(7ms)\x1b[0m": [12, 0, 0],
    "\x1b[31mFAILED\x1b[0m | 1 passed | 3 failed (2 steps) (7ms)": [1, 3, 0],
    "ok | 0 passed | 0 failed | 3 filtered out (5ms)": [0, 0, 0],
    "ok | 1 passed | 0 failed | 2 ignored | 3 filtered out (1m5s)\r": [1, 0, 2],
  };
  for (const [line, [passed, failed, skipped]] of Object.entries(lines)) {
    const output = `ok | 9 passed | 9 failed (1ms)\n\n${line}\n\n`;
    const expected = { ...NONE, passed, failed, skipped };
    assertEquals(readSummary(output), expected as Summary, line);
  }
});

Deno.test("readSummary() lists skipped tests and returns undefined without a summary line", () => {
  const output = "a test: with ... dots ... ignored (0ms)\n  a step ... \x1b[33mignored\x1b[0m\n";
  assertEquals(readSummary(output), undefined);
  const { skipped, skippedNames } = readSummary(
    `${output}\nok | 0 passed | 0 failed | 1 ignored (1ms)`,
  )!;
  assertEquals([skipped, skippedNames], [1, ["a test: with ... dots", "a step"]]);
});

Deno.test("readSummary() lists each failed test once, with what it printed and all its errors", () => {
  const output = `running 3 tests from ./tests/a_test.ts
one ... ok (1ms)
two ...
  a step ...
------- output -------
seed 7
----- output end -----
  a step ... \x1b[31mFAILED\x1b[0m (1ms)
two ... FAILED (due to 1 failed step) (2ms)
three ... FAILED (1ms)
Uncaught error from ./tests/a_test.ts FAILED

 ERRORS 

two ... a step => ./tests/a_test.ts:3:6
error: Error: first
three => ./tests/a_test.ts:9:1

two => ./tests/a_test.ts:2:6
error: Error: second

three => ./tests/a_test.ts:8:6
error: Error: third

./tests/a_test.ts (uncaught error)
error: Error: late

 FAILURES 

two ... a step => ./tests/a_test.ts:3:6
two => ./tests/a_test.ts:2:6
three => ./tests/a_test.ts:8:6
./tests/a_test.ts (uncaught error)

FAILED | 1 passed | 3 failed (2 steps) (3ms)
`;
  const { failed, failures } = readSummary(output)!;
  assertEquals([failed, failures.map(({ test }) => test)], [3, ["two", "three", undefined]]);
  const [two, three, file] = failures.map(({ text }) => text) as [string, string, string];
  for (const part of ["seed 7", "error: Error: first\nthree => ./tests/a_test.ts:9:1", "second"]) {
    assertStringIncludes(two, part);
  }
  assertEquals(three, "three => ./tests/a_test.ts:8:6\nerror: Error: third");
  assertEquals(file, "./tests/a_test.ts (uncaught error)\nerror: Error: late");
});

Deno.test("closingLine() mentions skipped tests only if there are any", () => {
  assertEquals(closingLine({ ...NONE, passed: 3 }), "3 passed, 0 failed");
  assertEquals(closingLine({ ...NONE, failed: 1, skipped: 2 }), "0 passed, 1 failed, 2 skipped");
});

Deno.test("skippedLine() counts skipped tests by the reasons behind their names", () => {
  const names = [
    "a [soak only]",
    "b() with (brackets) [soak only]",
    "c (skipped: this needs Linux)",
  ];
  names.push(
    "d [skipped: jsr:@db/redis cannot be loaded]",
    "e (skipped: this needs flock(1))",
    "f",
  );
  assertEquals(
    skippedLine(names),
    "skipped: 6 (soak only: 2; this needs Linux: 1; jsr:@db/redis cannot be loaded: 1; " +
      "this needs flock(1): 1; no reason given: 1)",
  );
});

Deno.test("sumOf() adds the counts of several files", () => {
  const [c, d] = ["c", "d"].map((test) => ({ test, text: "" })) as [never, never];
  const one = { passed: 1, failed: 1, skipped: 1, skippedNames: ["a"], failures: [c] };
  const two = { passed: 3, failed: 1, skipped: 1, skippedNames: ["b"], failures: [d] };
  const names = { skippedNames: ["a", "b"], failures: [c, d] };
  assertEquals(sumOf([one, two]), { passed: 4, failed: 2, skipped: 2, ...names });
  assertEquals(sumOf([]), NONE);
});
