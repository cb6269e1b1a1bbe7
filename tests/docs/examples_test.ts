/**
 * Examples that need no server, the types of all, and that none is left out.
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { exampleSuite } from "../../testing/docs/example_suite.ts";
import {
  checkExamples,
  runDocTests,
  runExample,
  withServers,
} from "../../testing/docs/examples.ts";
import {
  type Example,
  type ExampleServer,
  examplesIn,
  isIgnored,
  placeOf,
  publishedExamples,
  serverOf,
} from "../../tools/docs/examples.ts";

/** The test files that run the examples of each kind which `deno test --doc` leaves out. */
const SUITES: Readonly<Record<ExampleServer, string>> = {
  "redis": "redis_examples_test.ts",
  "redis-cluster": "redis_cluster_examples_test.ts",
  "redis-sentinel": "redis_sentinel_examples_test.ts",
  "zookeeper": "zookeeper_examples_test.ts",
  "none": "examples_test.ts",
};
const ORIGIN = "http://127.0.0.1:1";

exampleSuite("none", {});

Deno.test("deno test --doc runs all published examples but those that a suite runs", async () => {
  const examples = publishedExamples();
  assert(examples.length > 35, `${examples.length} examples: too few`);
  const others = examples.filter((example) => !isIgnored(example));
  assertEquals((await runDocTests()).toSorted(), others.map(placeOf).toSorted());
  for (const [server, file] of Object.entries(SUITES)) {
    const suite = Deno.readTextFileSync(new URL(file, import.meta.url));
    assert(suite.includes(`exampleSuite("${server}"`), `${file} does not run ${server}`);
  }
});

Deno.test("examplesIn() reads code, line and kind, and fails on a block without an end", () => {
  const source = [
    "/**",
    " * Does it.",
    " *",
    " * ```ts ignore",
    " * const a = `x`;",
    " *",
    " *   a;",
    " * ```",
    " */",
    "class A {",
    "  /**",
    "   * ```ts",
    "   * b;",
    "   * ```",
    "   */",
    "}",
  ];
  const examples = examplesIn("a.ts", source.join("\n"));
  assertEquals(examples, [
    { file: "a.ts", line: 4, info: "ts ignore", code: "const a = `x`;\n\n  a;\n" },
    { file: "a.ts", line: 12, info: "ts", code: "b;\n" },
  ]);
  assertEquals(examples.map(isIgnored), [true, false]);
  assertThrows(() => examplesIn("a.ts", " * ```ts\n * b;\n"), Error, "a.ts:1: the code block");
});

Deno.test("withServers() puts a test's servers in the place of those that an example names", () => {
  const code =
    `new ZooKeeperLock("zk1:2181,zk2:2181,zk3:2181/app"); fetch("https://example.com/a");`;
  const zookeeper = exampleOf(code);
  assertEquals(serverOf(zookeeper), "zookeeper");
  assertEquals(
    withServers(zookeeper, { address: "127.0.0.1:7", origin: ORIGIN }),
    `new ZooKeeperLock("127.0.0.1:7/app"); fetch("${ORIGIN}/a");`,
  );
  for (
    const [code, server, problem] of [
      ["createClient();", "redis", "must name its server 6379"],
      [`new Valkey("redis://127.0.0.1:6379");`, "none", "must not name 6379"],
      [`new Cluster(["redis://127.0.0.1:6379"]);`, "redis-cluster", "must not name 6379"],
    ] as const
  ) {
    const example = exampleOf(code);
    assertEquals(serverOf(example), server);
    const place = { address: "1", origin: ORIGIN };
    assertThrows(() => withServers(example, place), Error, `a.ts:7: the example ${problem}`);
  }
});

Deno.test("runExample() and checkExamples() name the line of what is wrong", async () => {
  const failing = exampleOf(`const a = 1;\nif (a === 1) throw new Error("no");\n`);
  const failed = await assertRejects(() => runExample(failing, { origin: ORIGIN }), Error);
  assert(failed.message.startsWith("a.ts:7: the example failed"), failed.message);
  assert(/\(a\.ts:9:\d+\)|at a\.ts:9:\d+/.test(failed.message), failed.message);
  const wrong = exampleOf(`console.log("");\nexport const a: number = "";\n`);
  const refused = await assertRejects(() => checkExamples([wrong]), Error);
  assert(/\ba\.ts:9:\d+/.test(refused.message), refused.message);
});

function exampleOf(code: string): Example {
  return { file: "a.ts", line: 7, info: "ts ignore", code };
}
