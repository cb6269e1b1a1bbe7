import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { readArguments, USAGE } from "../../../testing/runner/command_line.ts";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));

Deno.test("readArguments() selects the files of the wanted strategies", async () => {
  const selection = await readArguments(["--only", "file", "tests/conformance"], ROOT);
  const names = ["fake", "file"]; // the fake is of no strategy
  assertEquals(selection!.files, names.map((name) => `${ROOT}tests/conformance/${name}_test.ts`));
  assertEquals(selection!.filter, undefined);
});

Deno.test("readArguments() passes on the filter", async () => {
  assertEquals((await readArguments(["--filter", "killed"], ROOT))!.filter, "killed");
});

Deno.test("readArguments() lets servers be installed unless --no-install is given", async () => {
  assertEquals((await readArguments([], ROOT))!.isInstallRefused, false);
  assertEquals((await readArguments(["--no-install"], ROOT))!.isInstallRefused, true);
});

Deno.test("readArguments() counts the lines that tests reach only with --coverage", async () => {
  assertEquals((await readArguments([], ROOT))!.isCovered, false);
  assertEquals((await readArguments(["--coverage"], ROOT))!.isCovered, true);
});

Deno.test("readArguments() returns undefined for --help", async () => {
  assertEquals(await readArguments(["--help", "no/such_test.ts"], ROOT), undefined);
  assertStringIncludes(USAGE, "--no-install");
});

Deno.test("readArguments() rejects unknown strategies, options and files", async () => {
  const bad: [args: string[], message: string][] = [
    [["--only", "postgres"], 'Unknown strategy "postgres"'],
    [["--onyl", "redis"], "Unknown option '--onyl'"],
    [["no/such_test.ts"], 'Cannot find the test file or folder "no/such_test.ts"'],
    [["--stress", "heat"], 'Unknown stress "heat"'],
    [["--seed", "x"], 'Cannot use "x" for --seed'],
    [["--jobs", ""], 'Cannot use "" for --jobs'],
  ];
  for (const [args, message] of bad) {
    await assertRejects(() => readArguments(args, ROOT), Error, message);
  }
});

Deno.test("readArguments() makes repeated runs strict, and draws a seed unless it is given", async () => {
  const plain = await readArguments([], ROOT);
  assertEquals([plain!.repeat, plain!.isStrict, plain!.stress], [undefined, false, undefined]);
  assert(Number.isInteger(plain!.seed));
  const args = ["--repeat", "3", "--stress", "one-core", "--seed", "7", "--jobs", "2"];
  const { repeat, isStrict, stress, seed, jobs } = (await readArguments(args, ROOT))!;
  assertEquals([repeat, isStrict, stress, seed, jobs], [3, true, "one-core", 7, 2]);
});

Deno.test("USAGE explains each option", () => {
  const options = [
    "only",
    "filter",
    "jobs",
    "verbose",
    "strict",
    "changed-since",
    "repeat",
    "seed",
  ];
  options.push("stress", "servers", "no-install", "coverage", "help");
  for (const option of options) assertStringIncludes(USAGE, `  --${option}`);
});
