import { assertEquals } from "@std/assert";
import { linkedProject } from "../../testing/npm/project.ts";
import { BUN, programOf, runtimeSkip } from "../../testing/npm/runtimes.ts";

const skip = await runtimeSkip(BUN);

Deno.test({
  name: "fetchLock() of the npm package locks the routes of Bun.serve" +
    (skip === undefined ? "" : ` [skipped: ${skip}]`),
  ignore: skip !== undefined,
  async fn() {
    await using project = await linkedProject();
    const script = await project.copy("bun_serve.mjs");
    const { output } = await project.run([await programOf(BUN), script]);
    const parts = ["runs", "excludes", "streams", "loses"].map((name) => `ok ${name}`);
    assertEquals(output.trim().split("\n"), [...parts, "end"]);
  },
});
