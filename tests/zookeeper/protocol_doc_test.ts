import { assert } from "@std/assert";
import { fileURLToPath } from "node:url";
import { testFilesIn } from "../../testing/runner/select.ts";

const HERE = new URL("./", import.meta.url);

Deno.test("each test that the failure matrix names is there", async () => {
  const text = await Deno.readTextFile(new URL("../../docs/zookeeper-protocol.md", HERE));
  const paths = await testFilesIn(fileURLToPath(HERE));
  const named = [...text.matchAll(/`(\w+_test)` "([^"]+)"/g)];
  assert(named.length > 35, `${named.length} tests are named`);
  for (const [, file, test] of named) {
    const path = paths.find((path) => path.endsWith(`/${file}.ts`));
    const source = path === undefined ? "" : await Deno.readTextFile(path);
    assert(source.includes(test!), `${file}.ts has no test "${test}"`);
  }
  // And each test that is a row is named.
  for (const path of paths) {
    if (path.endsWith("protocol_doc_test.ts")) continue;
    const source = await Deno.readTextFile(path);
    for (const [, row] of source.matchAll(/Deno\.test\("(row: [^"]+)"/g)) {
      assert(text.includes(`"${row}"`), `the matrix lacks "${row}" of ${path}`);
    }
  }
});

Deno.test("each module that the protocol document links to exists, and each module is linked", async () => {
  const text = await Deno.readTextFile(new URL("../../docs/zookeeper-protocol.md", HERE));
  const linked = new Set(text.match(/(?<=\]\(\.\.\/zookeeper\/)[^)]+(?=\))/g));
  for (const path of linked) await Deno.stat(new URL(`../../zookeeper/${path}`, HERE));
  for (const folder of ["recipe", "session"]) {
    for await (const { name } of Deno.readDir(new URL(`../../zookeeper/${folder}/`, HERE))) {
      assert(linked.has(`${folder}/${name}`), `the document does not link to ${folder}/${name}`);
    }
  }
});
