import { assertEquals } from "@std/assert";
import { closingLine, readSummary, sumOf } from "../../../testing/runner/summary.ts";

const NONE = { passed: 0, failed: 0, skipped: 0, skippedNames: [], failedNames: [] };

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
    assertEquals(readSummary(output), expected as typeof NONE, line);
  }
});

Deno.test("readSummary() lists skipped tests and returns undefined without a summary line", () => {
  const output = "a test: with ... dots ... ignored (0ms)\n  a step ... \x1b[33mignored\x1b[0m\n";
  assertEquals(readSummary(output), undefined);
  assertEquals(readSummary(`${output}\nok | 0 passed | 0 failed | 1 ignored (1ms)`), {
    passed: 0,
    failed: 0,
    skipped: 1,
    skippedNames: ["a test: with ... dots", "a step"],
    failedNames: [],
  });
});

Deno.test("closingLine() mentions skipped tests only if there are any", () => {
  assertEquals(closingLine({ ...NONE, passed: 3 }), "3 passed, 0 failed");
  assertEquals(closingLine({ ...NONE, failed: 1, skipped: 2 }), "0 passed, 1 failed, 2 skipped");
});

Deno.test("readSummary() lists skipped tests when files run in parallel", () => {
  const output = "./tests/a_test.ts => needs => the moon ... ignored (0ms)\n" +
    "../tmp/b_test.ts => a test ... ignored (0ms)\n\nok | 1 passed | 0 failed | 2 ignored (1ms)\n";
  assertEquals(readSummary(output)?.skippedNames, ["needs => the moon", "a test"]);
});

Deno.test("sumOf() adds the counts of several runs", () => {
  const one = { passed: 1, failed: 1, skipped: 1, skippedNames: ["a"], failedNames: ["c"] };
  const two = { passed: 3, failed: 1, skipped: 1, skippedNames: ["b"], failedNames: ["d"] };
  const names = { skippedNames: ["a", "b"], failedNames: ["c", "d"] };
  assertEquals(sumOf([one, two]), { passed: 4, failed: 2, skipped: 2, ...names });
  assertEquals(sumOf([]), NONE);
});

Deno.test("readSummary() lists failed tests with their files", () => {
  const output = "./tests/a_test.ts => the moon ... \x1b[31mFAILED\x1b[0m (3ms)\n" +
    "./tests/a_test.ts => a test ... ok (0ms)\n\nFAILED | 1 passed | 1 failed (3ms)\n";
  assertEquals(readSummary(output)?.failedNames, ["./tests/a_test.ts => the moon"]);
});
