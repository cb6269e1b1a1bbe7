import { assert, assertEquals, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import { absoluteLinks } from "../../tools/npm/links.ts";
import { completeManifest } from "../../tools/npm/manifest.ts";
import { completePackage } from "../../tools/npm/pack.ts";
import { isTooLarge, sizeLine } from "../../tools/npm/sizes.ts";
import { readTar, writeTar } from "../../tools/npm/tar.ts";

const PACKED = { name: "@a/b", version: "1.2.3", exports: {} };

Deno.test("completeManifest() moves a peer out of the dependencies, and refuses others", () => {
  const dependencies = { "node-zookeeper-client": "^1.1.3" };
  const { dependencies: left, peerDependencies } = completeManifest(
    { ...PACKED, dependencies },
    "",
  );
  assertEquals(left, undefined);
  assertEquals((peerDependencies as Record<string, string>)["node-zookeeper-client"], "1.1.3");
  assertThrows(
    () => completeManifest({ ...PACKED, dependencies: { ...dependencies, left: "^1.0.0" } }, ""),
    Error,
    "must not depend on left",
  );
});

Deno.test("completeManifest() leaves the addresses out until the project has one", () => {
  const without = completeManifest(PACKED, "");
  assertEquals(["repository", "homepage", "bugs"].filter((name) => name in without), []);
  const { repository, homepage } = completeManifest(PACKED, "https://example.com/a/b");
  assertEquals(repository, { type: "git", url: "git+https://example.com/a/b.git" });
  assertEquals(homepage, "https://example.com/a/b#readme");
});

Deno.test("absoluteLinks() rewrites relative links only, those of images to the files themselves", () => {
  const page =
    "[a](docs/a.md#b) [![i](./i.png)](j.md) [c](https://d.e/f) [g](#h) [m](mailto:a@b.c)";
  assertEquals(
    absoluteLinks(page, "https://example.com/r", "1.2.3"),
    "[a](https://example.com/r/blob/v1.2.3/docs/a.md#b) " +
      "[![i](https://example.com/r/raw/v1.2.3/i.png)](https://example.com/r/blob/v1.2.3/j.md) " +
      "[c](https://d.e/f) [g](#h) [m](mailto:a@b.c)",
  );
});

Deno.test("completePackage() writes the manifest, and absolute links once there is an address", () => {
  const files = new Map([
    ["package/package.json", Buffer.from(JSON.stringify(PACKED))],
    ["package/README.md", Buffer.from("[a](a.md)")],
    ["package/llms.txt", Buffer.from("[a](a.md)")],
    ["package/mod.js", Buffer.from("// [a](a.md)")],
  ]);
  const read = (repository: string, path: string) =>
    Buffer.from(completePackage(files, repository).files.get(path)!).toString();
  assertEquals(JSON.parse(read("", "package/package.json")).sideEffects, false);
  assertEquals(read("", "package/README.md"), "[a](a.md)");
  const repository = "https://example.com/r";
  for (const page of ["package/README.md", "package/llms.txt"]) {
    assertEquals(read(repository, page), `[a](${repository}/blob/v1.2.3/a.md)`);
  }
  assertEquals(read(repository, "package/mod.js"), "// [a](a.md)");
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
