/**
 * Examples that need no server, and the types of all that `deno test --doc` leaves out.
 */
import { checkExamples } from "../../testing/docs/examples.ts";
import { exampleSuite } from "../../testing/docs/example_suite.ts";
import { ignoredExamples } from "../../tools/docs/examples.ts";

exampleSuite("none", {});

Deno.test("the examples that deno test --doc leaves out have correct types", async () => {
  await checkExamples(ignoredExamples());
});
