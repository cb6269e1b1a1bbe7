import { assert } from "@std/assert";
import { fileURLToPath } from "node:url";
import { testFilesIn } from "../../testing/runner/select.ts";

const HERE = new URL("./", import.meta.url);

Deno.test("docs/zookeeper-protocol.md names existing tests, and every test of the failure matrix", async () => {
  const text = await Deno.readTextFile(new URL("../../docs/zookeeper-protocol.md", HERE));
  const paths = await testFilesIn(fileURLToPath(HERE));
  const named = [...text.matchAll(/`(\w+_test)` "([^"]+)"/g)];
  assert(named.length > 35, `${named.length} tests are named`);
  for (const [, file, test] of named) {
    const files = paths.filter((path) => path.endsWith(`/${file}.ts`));
    const sources = await Promise.all(files.map((path) => Deno.readTextFile(path)));
    assert(sources.some((source) => source.includes(test!)), `${file}.ts has no test "${test}"`);
  }
  // Every test in these files is about a row of the matrix, and so must be named there.
  const files = paths.filter((path) => /\/(?:matrix\w*|permissions)_test\.ts$/.test(path));
  assert(files.length > 2, `${files.length} files`);
  for (const path of files) {
    const titles = [...(await Deno.readTextFile(path)).matchAll(/Deno\.test\("([^"]+)"/g)];
    assert(titles.length > 0, `${path} has no tests`);
    for (const [, title] of titles) {
      assert(text.includes(`"${title}"`), `the matrix lacks "${title}" of ${path}`);
    }
  }
});

Deno.test("docs/zookeeper-protocol.md links to existing modules, and to each one of recipe/ and session/", async () => {
  const text = await Deno.readTextFile(new URL("../../docs/zookeeper-protocol.md", HERE));
  const linked = new Set(text.match(/(?<=\]\(\.\.\/zookeeper\/)[^)]+(?=\))/g));
  for (const path of linked) await Deno.stat(new URL(`../../zookeeper/${path}`, HERE));
  for (const folder of ["recipe", "session"]) {
    for await (const { name } of Deno.readDir(new URL(`../../zookeeper/${folder}/`, HERE))) {
      assert(linked.has(`${folder}/${name}`), `the document does not link to ${folder}/${name}`);
    }
  }
});
