import { assert, assertEquals } from "@std/assert";
import { CONSUMER_PACKAGES } from "../../testing/npm/consumers.ts";
import { installSkip } from "../../testing/npm/install.ts";
import { NEST_VERSIONS } from "../../testing/npm/nest_app.ts";
import { newerThanNode22, publishedModules, TELEMETRY } from "../../testing/npm/node_api.ts";
import { NODE_22, runtimeSkip } from "../../testing/npm/runtimes.ts";

const packages = [
  ...CONSUMER_PACKAGES.map((spec) => [spec]),
  NEST_VERSIONS[0]!.specs,
  [TELEMETRY],
];
const skips = await Promise.all(packages.map(installSkip));
const skip = skips.find((reason) => reason !== undefined) ?? await runtimeSkip(NODE_22);

function test(name: string, fn: () => Promise<void>): void {
  const reason = skip === undefined ? "" : ` [skipped: ${skip}]`;
  Deno.test({ name: name + reason, ignore: skip !== undefined, fn });
}

test("published modules use nothing that Node 22 lacks", async () => {
  const modules = await publishedModules();
  assert(modules.length > 100, `only ${modules.length} modules`);
  assertEquals(await newerThanNode22(modules), []);
});

test("newerThanNode22() finds what Node 22 lacks, and allows what it has", async () => {
  const file = await Deno.makeTempFile({ suffix: ".ts" });
  const lines = [
    "export const a = Promise.try(() => 1);",
    'export const b = RegExp.escape("a");',
    "export const c = Temporal.Now.instant();",
    "export const d = new DisposableStack().disposed;",
    "export const e = Deno.pid;",
    "export const f = [...new Set([1]).union(new Set([2])).values().take(1)];",
    "export const g = Promise.withResolvers<void>();",
    "export const h = { async [Symbol.asyncDispose]() {} };",
  ];
  await Deno.writeTextFile(file, lines.join("\n"));
  const found = await newerThanNode22([file]);
  await Deno.remove(file);
  const places = found.map((line) => Number(/\((\d+),/.exec(line)?.[1]));
  assertEquals(places, [1, 2, 3, 4, 5], found.join("\n"));
});
