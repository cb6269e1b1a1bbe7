import { assert, assertEquals, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import { packedLinks } from "../../tools/npm/links.ts";
import { completeManifest } from "../../tools/npm/manifest.ts";
import { completePackage } from "../../tools/npm/pack.ts";
import { REPOSITORY } from "../../tools/npm/project.ts";
import { isTooLarge, sizeLine } from "../../tools/npm/sizes.ts";
import { readTar, writeTar } from "../../tools/npm/tar.ts";

const PACKED = { name: "@a/b", version: "1.2.3", exports: {} };

Deno.test("completeManifest() moves a peer out of the dependencies, and refuses others", () => {
  const dependencies = { "node-zookeeper-client": "^1.1.3" };
  const { dependencies: left, peerDependencies } = completeManifest({ ...PACKED, dependencies });
  assertEquals(left, undefined);
  assertEquals((peerDependencies as Record<string, string>)["node-zookeeper-client"], "1.1.3");
  assertThrows(
    () => completeManifest({ ...PACKED, dependencies: { ...dependencies, left: "^1.0.0" } }),
    Error,
    "must not depend on left",
  );
});

Deno.test("completeManifest() writes the addresses of the project", () => {
  const { repository, homepage, bugs } = completeManifest(PACKED);
  assertEquals(repository, { type: "git", url: `git+${REPOSITORY}.git` });
  assertEquals([homepage, bugs], [`${REPOSITORY}#readme`, `${REPOSITORY}/issues`]);
});

Deno.test("packedLinks() keeps links within the package, and leads others to the files of the version", () => {
  const page =
    "[a](b.md#c) [![i](./i.png)](../j.md) [c](https://d.e/f) [g](#h) [m](mailto:a@b.c) [r](r/)";
  const targets = {
    isPacked: (path: string) => path === "docs/b.md",
    repository: "https://example.com/r",
    version: "1.2.3",
  };
  assertEquals(
    packedLinks("docs/a.md", page, targets),
    "[a](b.md#c) [![i](https://example.com/r/raw/v1.2.3/docs/i.png)]" +
      "(https://example.com/r/blob/v1.2.3/j.md) [c](https://d.e/f) [g](#h) [m](mailto:a@b.c) " +
      "[r](https://example.com/r/blob/v1.2.3/docs/r)",
  );
});

Deno.test("completePackage() writes the manifest, and the links of the pages", () => {
  const files = new Map([
    ["package/package.json", Buffer.from(JSON.stringify(PACKED))],
    ["package/README.md", Buffer.from("[a](docs/a.md#b) [c](c.md)")],
    ["package/docs/a.md", Buffer.from("[a](../README.md) [c](../c.md#d)")],
    ["package/mod.js", Buffer.from("// [a](a.md)")],
  ]);
  const { files: completed } = completePackage(files);
  const read = (path: string) => Buffer.from(completed.get(`package/${path}`)!).toString();
  const other = `${REPOSITORY}/blob/v1.2.3/c.md`;
  assertEquals(JSON.parse(read("package.json")).sideEffects, false);
  assertEquals(read("README.md"), `[a](docs/a.md#b) [c](${other})`);
  assertEquals(read("docs/a.md"), `[a](../README.md) [c](${other}#d)`);
  assertEquals(read("mod.js"), "// [a](a.md)");
});

Deno.test("deno task npm explains its options and rejects others", async () => {
  const run = async (...args: string[]) => {
    const script = new URL("../../tools/npm/main.ts", import.meta.url).pathname;
    const command = new Deno.Command(Deno.execPath(), { args: ["run", "-A", script, ...args] });
    const { code, stdout, stderr } = await command.output();
    return [code, new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr)] as const;
  };
  const [code, help] = await run("--help");
  assertEquals([code, help.includes("--out FOLDER")], [0, true]);
  const [wrong, message] = await run("--output", "x");
  assertEquals([wrong, message.includes("Unknown option")], [2, true]);
});

Deno.test("writeTar() writes what readTar() and tar read, the same bytes each time", async () => {
  const files = new Map([0, 1, 511, 512, 513, 2_000].map((size) => [
    `package/folder/${size}.txt`,
    Buffer.alloc(size, "x"),
  ]));
  const archive = writeTar(files);
  assertEquals(
    [...readTar(archive)].map(([path, bytes]) => [path, bytes.length]),
    [...files].map(([path, bytes]) => [path, bytes.length]),
  );
  assert(writeTar(files).equals(archive));
  assertThrows(() => writeTar(new Map([["x".repeat(101), Buffer.alloc(0)]])), Error, "too long");
  const file = await Deno.makeTempFile();
  await Deno.writeFile(file, archive);
  const { stdout } = await new Deno.Command("tar", { args: ["-tvf", file] }).output();
  await Deno.remove(file);
  const listed = new TextDecoder().decode(stdout).trim().split("\n");
  assertEquals(listed.map((line) => /(\d+)\.txt$/.exec(line)?.[1]), [
    "0",
    "1",
    "511",
    "512",
    "513",
    "2000",
  ]);
});

Deno.test("isTooLarge() refuses an entry above its bound, and one without a bound", () => {
  assert(!isTooLarge({ entry: "./a", bytes: 1_000, bound: 1_000 }));
  assert(isTooLarge({ entry: "./a", bytes: 1_001, bound: 1_000 }));
  assert(isTooLarge({ entry: "./a", bytes: 1, bound: undefined }));
  assertEquals(
    sizeLine({ entry: "./a", bytes: 1_500, bound: 1_000 }).replaceAll(/ +/g, " "),
    "FAILED ./a 1.5 kB of at most 1.0 kB",
  );
});
