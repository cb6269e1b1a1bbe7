/** `holdfast draw` by its exit codes. What it draws is in `tests/timeline/`. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { scriptCommand, spawnProcess } from "../../testing/runtime/processes.ts";
import { text } from "node:stream/consumers";

const MAIN = new URL("../../command/main.ts", import.meta.url);

async function draw(...args: string[]): Promise<{ code: number; errors: string }> {
  const child = spawnProcess([...scriptCommand(MAIN), "draw", ...args], { stderr: "pipe" });
  const errors = await text(child.stderr!);
  return { code: (await child.ended).code, errors };
}

Deno.test("holdfast draw refuses bad arguments with 64, and a file that it cannot draw with 1", async () => {
  for (const args of [[], ["--from", "soon", "a.jsonl"], ["--all", "a.jsonl"]]) {
    assertEquals((await draw(...args)).code, 64, args.join(" "));
  }
  const missing = await draw("/no/such/file");
  assertEquals(missing.code, 1);
  assertStringIncludes(missing.errors, "ENOENT");
  const other = await draw(new URL("../../deno.json", import.meta.url).pathname);
  assertEquals(other.code, 1);
  assertStringIncludes(other.errors, "it is no recording of locks");
});
