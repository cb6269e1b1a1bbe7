import { assertEquals, assertMatch } from "@std/assert";
import { Progress } from "../../../testing/runner/progress.ts";

Deno.test("Progress counts files and tests, but no steps, whatever the parts of the output", () => {
  const output = [
    "./tests/a_test.ts => one ... \x1b[32mok\x1b[0m (1ms)",
    "./tests/a_test.ts => two ... a step ... ok (1ms)",
    "./tests/a_test.ts => two ... FAILED (1ms)",
    "------- output -------",
    "./tests/b_test.ts => three ... ignored (0ms)",
    "./tests/b_test.ts => four ... ok (1m2s)",
    "./tests/c_test.ts => five",
  ].join("\n");
  for (const size of [1, 7, output.length]) {
    const progress = new Progress(9);
    for (let i = 0; i < output.length; i += size) progress.add(output.slice(i, i + size));
    assertEquals(progress.line, "After 0 s: 2 of 9 files done, 3 tests done, 1 failed");
  }
});

Deno.test("Progress counts the tests of a single file, whose lines do not name it", () => {
  const progress = new Progress(1);
  progress.add("one ... ok (1ms)\ntwo ... FAILED (1ms)\n");
  assertMatch(progress.line, /2 tests done, 1 failed$/);
});
