/**
 * `deno task ok`, the gate: everything that must hold before a commit and needs no server.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { fileURLToPath } from "node:url";
import { selectFiles, testFilesIn } from "../testing/runner/select.ts";
import { importMapArgs } from "./import_map.ts";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const SERVERLESS_TESTS = [
  "tests/core",
  "tests/memory",
  "tests/fake",
  "tests/tools",
  "tests/testing/assert",
  "tests/testing/runtime",
  "tests/architecture_test.ts",
  "tests/conformance/memory_test.ts",
  "tests/conformance/fake_test.ts",
  // Files that need neither a server nor other processes, in folders where most tests do.
  "tests/file/file_lock_test.ts",
  "tests/file/record_test.ts",
  "tests/file/tokens_test.ts",
  "tests/faults/mutant_texts_test.ts",
  "tests/redis/protocol/lua_constants_test.ts",
  "tests/redis/protocol/lua_style_test.ts",
  "tests/redis/protocol/messages_test.ts",
  "tests/redis/protocol/failures_test.ts",
  "tests/redis/protocol/replies_test.ts",
  "tests/redis/protocol/server_clocks_test.ts",
];
/** Folders in which only tests without a strategy run: the others need servers or time. */
const MIXED_TESTS = ["tests/bench", "tests/fencing", "tests/http", "tests/lock_service"];
/** How many test files run at a time: they mostly wait. */
const TEST_JOBS = "3";
/** Of its tests, those that are about no strategy check all examples and comments. */
const DOCUMENTATION_TESTS = "tests/docs";

interface Step {
  readonly name: string;
  readonly args: readonly string[];
  /** Whether the last line that it prints is a figure to show. */
  readonly hasFigure?: boolean;
}

/** The parts of the steps that depend on this machine and on the tree. */
interface Parts {
  readonly imports: readonly string[];
  /** The published modules. */
  readonly entries: readonly string[];
  /** The test files that need no server. */
  readonly tests: readonly string[];
  /** The test files about examples and comments that need no server. */
  readonly documentationTests: readonly string[];
}

function steps({ imports, entries, tests, documentationTests }: Parts): Step[] {
  // The step "check" checks the types.
  const test = ["test", "-A", "-q", "--no-check", "--parallel", ...imports];
  return [
    // The longest begin first: two run at a time, and a long one at the end would run alone.
    { name: "tests without servers", args: [...test, ...tests] },
    { name: "check", args: ["run", "-A", "tools/check.ts"] },
    { name: "examples and comments", args: [...test, ...documentationTests] },
    { name: "fmt", args: ["fmt", "--check", "-q"] },
    { name: "lint", args: ["lint", "-q"] },
    { name: "scripts are fresh", args: ["run", "-A", "tools/embed_lua.ts", "--check"] },
    {
      name: "the API and its options are as written down",
      args: ["run", "-A", "tools/api.ts", "--check"],
    },
    {
      name: "awaited timers",
      args: ["run", "-A", "tools/awaited_timers/main.ts"],
      hasFigure: true,
    },
    { name: "doc --lint", args: ["doc", "--lint", ...entries] },
    { name: "publish --dry-run", args: ["publish", "--dry-run", "--allow-dirty"] },
  ];
}

async function serverlessTests(): Promise<string[]> {
  const mixed = await Promise.all(MIXED_TESTS.map(testsOfNoStrategy));
  return [...SERVERLESS_TESTS, ...mixed.flat()];
}

async function testsOfNoStrategy(folder: string): Promise<string[]> {
  return selectFiles(await testFilesIn(`${ROOT}${folder}`), []);
}

/** Runs one step and prints its result; prints its output only if it failed. */
async function run({ name, args, hasFigure }: Step): Promise<boolean> {
  const startMs = performance.now();
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [...args],
    cwd: ROOT,
    env: { NO_COLOR: "1", DENO_JOBS: TEST_JOBS },
  }).output();
  const seconds = ((performance.now() - startMs) / 1_000).toFixed(1);
  const lastLine = new TextDecoder().decode(stdout).trimEnd().split("\n").at(-1);
  const figure = hasFigure ? `: ${lastLine}` : "";
  console.log(`${success ? "ok    " : "FAILED"} ${name} (${seconds} s)${figure}`);
  if (!success) {
    await Deno.stdout.write(stdout);
    await Deno.stderr.write(stderr);
  }
  return success;
}

/** Runs all steps, two at a time, and returns the exit code. */
async function main(): Promise<number> {
  const { exports } = JSON.parse(Deno.readTextFileSync(`${ROOT}deno.json`));
  const queue = steps({
    imports: await importMapArgs(),
    entries: Object.values<string>(exports),
    tests: await serverlessTests(),
    documentationTests: await testsOfNoStrategy(DOCUMENTATION_TESTS),
  });
  let failures = 0;
  const worker = async () => {
    for (let step = queue.shift(); step !== undefined; step = queue.shift()) {
      if (!await run(step)) failures++;
    }
  };
  await Promise.all([worker(), worker()]);
  return failures === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main());
