import { assert } from "@std/assert";

const HERE = new URL("./", import.meta.url);

Deno.test("each test that the failure matrix names is there", async () => {
  const text = await Deno.readTextFile(new URL("../../docs/zookeeper-protocol.md", HERE));
  const named = [...text.matchAll(/`(\w+_test)` "([^"]+)"/g)];
  assert(named.length > 35, `${named.length} tests are named`);
  for (const [, file, test] of named) {
    const source = await Deno.readTextFile(new URL(`${file}.ts`, HERE));
    assert(source.includes(test!), `${file}.ts has no test "${test}"`);
  }
  // And each test that is a row is named.
  for await (const { name } of Deno.readDir(HERE)) {
    if (!name.endsWith("_test.ts") || name === "protocol_doc_test.ts") continue;
    const source = await Deno.readTextFile(new URL(name, HERE));
    for (const [, row] of source.matchAll(/Deno\.test\("(row: [^"]+)"/g)) {
      assert(text.includes(`"${row}"`), `the matrix lacks "${row}" of ${name}`);
    }
  }
});
