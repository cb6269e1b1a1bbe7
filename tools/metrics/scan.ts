/**
 * Writes the modules of the published code as JSON into the file that its argument names. A test, since
 * Deno offers its parser only to tests.
 *
 * @module
 */
import { readModule } from "./module.ts";
import { publishedFiles, read } from "./published.ts";

Deno.test("published code", () => {
  const modules = publishedFiles().filter((path) => path.endsWith(".ts"))
    .map((path) => readModule(path, read(path)));
  Deno.writeTextFileSync(Deno.args[0]!, JSON.stringify(modules));
});
