import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { runCommand } from "../../testing/servers/command.ts";
import { mirrorsIn } from "../../tools/servers/apt.ts";
import { type Package, packagesOf, readPackages } from "../../tools/servers/packages.ts";
import { writeWrapper } from "../../tools/servers/unpack.ts";

const RECORDS = `Package: some-server
Source: some (1:2-3)
Version: 1:2-3+b1
Section: database
Depends: some-tools (= 1:2-3+b1), adduser, liba6 (>= 2.38) | libold
Pre-Depends: init-system-helpers (>= 1.54~)
Description: A server
 Depends: nothing
Size: 66576

Package: some-tools
Source: some
Version: 1:2-3+b1
Section: database
Depends: zlib1g:any (>= 1), liba6

Package: adduser
Version: 3
Section: admin
Depends: libuser1

Package: liba6
Version: 2.41
Section: libs
Depends: some-server, libc6

Package: libc6
Version: 2.41
Section: libs

Package: zlib1g
Version: 1.3
Section: libs

Package: libuser1
Version: 1
Section: libs

`;

/** An index of these records; the tests read from it as from apt. */
function indexOf(records: readonly Package[]) {
  return (names: readonly string[]) =>
    Promise.resolve(records.filter(({ name }) => names.includes(name)));
}

Deno.test("readPackages() reads versions, sources and dependencies", () => {
  const [server, tools, ...others] = readPackages(RECORDS);
  assertEquals(server, {
    name: "some-server",
    version: "1:2-3+b1",
    source: "some",
    section: "database",
    size: 66576,
    dependencies: ["init-system-helpers", "some-tools", "adduser", "liba6"],
  });
  assertEquals(tools!.dependencies, ["zlib1g", "liba6"]);
  assertEquals(others.length, 5);
  assertEquals(readPackages("E: No packages found\n"), []);
});

Deno.test("packagesOf() selects the program's packages and libraries, not those of an installation", async () => {
  const index = indexOf(readPackages(RECORDS));
  const names = (await packagesOf("some-server", index)).map(({ name }) => name);
  assertEquals(names.sort(), ["liba6", "libc6", "some-server", "some-tools", "zlib1g"]);
  await assertRejects(() => packagesOf("other", index), Error, 'Cannot find the package "other"');
});

Deno.test("mirrorsIn() lists each mirror of main once, those of Debian first", () => {
  const lines = "http://a/debian-security/ main\nhttp://b/debian/ main\nhttp://b/debian/ main\n" +
    "https://c/debian contrib\nhttps://d/node nodistro\nhttps://e/debian main\n";
  assertEquals(mirrorsIn(lines), [
    "http://b/debian/",
    "https://e/debian",
    "http://a/debian-security/",
  ]);
});

Deno.test("writeWrapper() starts a program with the loader and libraries of its own system", async () => {
  const root = await Deno.makeTempDir({ prefix: "holdfast-it's " });
  const folder = `${root}/usr/lib/some-linux-gnu`;
  await Deno.mkdir(folder, { recursive: true });
  await Deno.mkdir(`${root}/usr/bin`);
  await Deno.writeTextFile(`${root}/usr/bin/server`, "");
  await assertRejects(() => writeWrapper(root, "server", `${root}/server`), Error, "libc6");
  const loader = `${folder}/ld-linux-some.so.2`;
  await Deno.writeTextFile(loader, `#!/bin/sh\nprintf '%s\\n' "$@"\n`, { mode: 0o755 });
  await writeWrapper(root, "server", `${root}/server`);
  const { output } = await runCommand([`${root}/server`, "--port", "1 2"], 20_000);
  const expected = ["--argv0", "server", "--library-path", folder, `${root}/usr/bin/server`];
  assertEquals(output.trim().split("\n"), [...expected, "--port", "1 2"]);
  await assertRejects(() => writeWrapper(root, "no", `${root}/no`), Error, "Cannot find");
  await Deno.remove(root, { recursive: true });
});

Deno.test("deno task servers explains its options and rejects others", async () => {
  const command = new URL("../../tools/servers/main.ts", import.meta.url).href;
  const run = (option: string) =>
    new Deno.Command(Deno.execPath(), { args: ["run", "-A", command, option] }).output();
  const [help, bad] = [await run("--help"), await run("--mirrors")];
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  assertEquals([help.code, bad.code], [0, 2]);
  assertMatch(text(help.stdout), /^Usage: deno task servers/);
  assertStringIncludes(text(bad.stderr), "Usage: deno task servers");
});
