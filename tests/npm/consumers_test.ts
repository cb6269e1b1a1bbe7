/** Programs of users compile with the package's declarations, whose own errors count. */
import { assertEquals, assertMatch } from "@std/assert";
import {
  allConsumers,
  checkConsumer,
  CONSUMER_PACKAGES,
  REFUSED,
  someConsumers,
  titleOf,
} from "../../testing/npm/consumers.ts";
import { installSkip } from "../../testing/npm/install.ts";
import { packedPackage } from "../../testing/npm/package.ts";
import { NODE_22, runtimeSkip } from "../../testing/npm/runtimes.ts";

const RUNS = Deno.env.get("HOLDFAST_SOAK") ? allConsumers() : someConsumers();
const skips = await Promise.all(CONSUMER_PACKAGES.map((spec) => installSkip([spec])));
const skip = skips.find((reason) => reason !== undefined) ?? await runtimeSkip(NODE_22);

for (const settings of RUNS) {
  Deno.test({
    name: `the npm package compiles in ${titleOf(settings)}` +
      (skip === undefined ? "" : ` [skipped: ${skip}]`),
    ignore: skip !== undefined,
    fn: async () => assertEquals(await checkConsumer(settings), ""),
  });
}

Deno.test({
  name: "the npm package does not compile in CommonJS with node16, as docs/runtimes.md says" +
    (skip === undefined ? "" : ` [skipped: ${skip}]`),
  ignore: skip !== undefined,
  fn: async () => assertMatch(await checkConsumer(REFUSED), /error TS1479: .*ECMAScript module/),
});

Deno.test("no declaration of the npm package needs Deno's types", async () => {
  const { folder } = await packedPackage();
  assertEquals(declarationsWithDeno(folder), []);
});

function declarationsWithDeno(folder: string): string[] {
  return [...Deno.readDirSync(folder)].flatMap(({ name, isDirectory }) => {
    const path = `${folder}/${name}`;
    if (isDirectory) return declarationsWithDeno(path);
    if (!name.endsWith(".d.ts")) return [];
    const code = Deno.readTextFileSync(path).replaceAll(/\/\*[^]*?\*\//g, "");
    return /\bDeno\b/.test(code) ? [path] : [];
  });
}
