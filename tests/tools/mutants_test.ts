/**
 * `deno task mutants`: which mutations it finds and draws, and what it makes of them in a small project. The
 * planted bugs of the checker have their own tests, in `tests/faults/`.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { text } from "node:stream/consumers";
import { makeTempDirectory } from "../../testing/runtime/temporary_files.ts";
import { scriptCommand, spawnProcess } from "../../testing/runtime/processes.ts";
import { runCommand } from "../../testing/servers/command.ts";
import { TimeFactor } from "../../testing/runner/time_factor.ts";
import { CONDITION_BOUND_MS } from "../../testing/time.ts";
import { Copies } from "../../tools/mutants/copies.ts";
import { drawMutants, seedsOf } from "../../tools/mutants/draw.ts";
import { diffOf, mutated, mutationsIn } from "../../tools/mutants/mutations.ts";
import { nearness, Reach } from "../../tools/mutants/reach.ts";
import { reportOf, runMutants } from "../../tools/mutants/run.ts";

/** A timer of `runDeno()` outlives the process that it waits for. */
const UNBOUND: Partial<Deno.TestDefinition> = { sanitizeOps: false, sanitizeResources: false };
const MAIN = new URL("../../tools/mutants/main.ts", import.meta.url);

/** The mutations of a statement in a function, each as its kind and the mutated statement. */
function mutationsOf(statement: string): [kind: string, text: string][] {
  const [head, tail] = ["function f() {\n", "\nreturn;\n}\n"];
  const source = head + statement + tail;
  return mutationsIn(source).map((mutation) => {
    assertEquals(mutation.line, 2);
    return [mutation.kind, mutated(source, mutation).slice(head.length, -tail.length)];
  });
}

Deno.test("mutationsIn() changes conditions", () => {
  const cases: Record<string, string[]> = {
    "while (a) b;": ["while (!(a)) b;"],
    "do b; while (a)": ["do b; while (!(a))"],
    "for (; a;) b;": ["for (; !(a);) b;"],
    "const b = a ? c : d;": ["const b = !(a) ? c : d;"],
    "if (!a) b;": ["if (a) b;"],
    "const b = !a;": ["const b = a;"],
    "const b = a < c;": ["const b = a <= c;"],
    "const b = a <= c;": ["const b = a < c;"],
    "const b = a > c;": ["const b = a >= c;"],
    "const b = a >= c;": ["const b = a > c;"],
    "const b = a && c;": ["const b = a || c;"],
    "const b = a || c;": ["const b = a && c;"],
    "if (a === b) c;": ["if (a !== b) c;"],
    "if (a !== b) c;": ["if (a === b) c;"],
    "if (a < b) c;": ["if (!(a < b)) c;", "if (a <= b) c;"],
    "const b = a ?? c;": [],
  };
  for (const [statement, expected] of Object.entries(cases)) {
    const conditions = mutationsOf(statement).filter(([kind]) => kind === "condition");
    assertEquals(conditions.map(([, text]) => text), expected, statement);
  }
});

Deno.test("mutationsIn() changes operators", () => {
  const cases: Record<string, string[]> = {
    "const b = a + c;": ["const b = a - c;"],
    "const b = a - c;": ["const b = a + c;"],
    "const b = a * c;": ["const b = a / c;"],
    "const b = a / c;": ["const b = a * c;"],
    "const b = -a;": ["const b = a;"],
    "for (;; a += b);": ["for (;; a -= b);"],
    "for (;; a -= b);": ["for (;; a += b);"],
    "for (;; a++);": ["for (;; a--);"],
    "for (;; --a);": ["for (;; ++a);"],
  };
  for (const [statement, expected] of Object.entries(cases)) {
    assertEquals(mutationsOf(statement), expected.map((text) => ["operator", text]), statement);
  }
});

Deno.test("mutationsIn() changes constants", () => {
  const cases: Record<string, string[]> = {
    "const a = 0;": ["const a = 1;"],
    "const a = 1_500;": ["const a = 3000;"],
    "const a = 0.5;": ["const a = 1;"],
    "const a = 0n;": ["const a = 1n;"],
    "const a = 21n;": ["const a = 42n;"],
    "const a = true;": ["const a = false;"],
    "const a = { b: false };": ["const a = { b: true };"],
    'const a = "0";': [],
  };
  for (const [statement, expected] of Object.entries(cases)) {
    assertEquals(mutationsOf(statement), expected.map((text) => ["constant", text]), statement);
  }
});

Deno.test("mutationsIn() drops statements, and ends of functions and loops that come early", () => {
  const cases: Record<string, string[]> = {
    "a();": [";"],
    "await a.b(c);": [";"],
    "a = b;": [";"],
    "{ return; }": ["{ ; }"],
    "{ return a; }": ["{ ; }"],
    "throw a;": [";"],
    "for (;;) break;": ["for (;;) ;"],
    "for (;;) continue;": ["for (;;) ;"],
    '"use strict";': [],
    "const a = b();": [],
  };
  for (const [statement, expected] of Object.entries(cases)) {
    assertEquals(mutationsOf(statement), expected.map((text) => ["statement", text]), statement);
  }
});

Deno.test("mutationsIn() leaves types, comments, imports and errors as they are", () => {
  const source = `
    /** @example \`if (a < 1) b();\` */
    import a from "./a.ts"; // 1 < 2
    export * from "./b.ts";
    interface A { b: 1; c: true; d(e?: 0): void }
    type B = 1 extends 2 ? true : false;
    declare const c: 0 | 1;
    const d = { 1: c } as Record<1, 0>;
    const e = () => new RangeError(\`must be \${c > 1 ? "more" : "less"} than \${c + 1}\`);
    const f = () => new SetupFailure("no" + (c - 1));
  `;
  assertEquals(mutationsIn(source), []);
});

Deno.test("diffOf() shows the lines before and after", () => {
  const source = "if (a) {\n  b(\n    c,\n  );\n}\n";
  const drop = mutationsIn(source).find(({ kind }) => kind === "statement")!;
  assertEquals(drop.line, 2);
  assertEquals(diffOf(source, drop), ["- b(", "- c,", "- );", "+ ;"]);
});

/** The files of a project. */
const LIMIT = `
/** Whether there are too many. */
export function isOver(count: number, limit: number): boolean {
  return count > limit;
}
`;
const OTHER = `
export function other(a: number): boolean {
  return a === 3;
}
`;
const FILES: Readonly<Record<string, string>> = {
  "deno.json": "{}",
  ".gitignore": ".mutants/\n",
  "core/limit.ts": LIMIT,
  "core/other.ts": OTHER,
  "core/generated.ts": "/** Generated by a tool. */\nexport const a = 1;\n",
  // It does not try the limit itself.
  "tests/core/limit_test.ts": `
    import { isOver } from "../../core/limit.ts";
    Deno.test("isOver()", () => {
      if (!isOver(2, 1) || isOver(1, 2)) throw new Error("wrong");
    });
  `,
  "testing/child.ts": `
    import { other } from "../core/other.ts";
    Deno.exitCode = other(3) && !other(4) ? 0 : 1;
  `,
  "tests/child_test.ts": `
    Deno.test("a child process calls other()", async () => {
      const args = ["run", "--no-check", new URL("../testing/child.ts", import.meta.url).pathname];
      const { success } = await new Deno.Command(Deno.execPath(), { args }).output();
      if (!success) throw new Error("wrong");
    });
  `,
  // It fails whenever its reach is not being measured: not because of a mutation.
  "tests/core/limit_unstable_test.ts": `
    import { isOver } from "../../core/limit.ts";
    Deno.test("fails at random", () => {
      isOver(1, 2);
      if (Deno.env.get("DENO_COVERAGE_DIR") === undefined) throw new Error("wrong");
    });
  `,
};

async function plantProject(
  files: Readonly<Record<string, string>> = FILES,
): Promise<{ readonly root: string } & AsyncDisposable> {
  const root = await Deno.realPath(await makeTempDirectory());
  for (const [path, content] of Object.entries(files)) {
    await Deno.mkdir(`${root}/${path}`.replace(/\/[^/]*$/, ""), { recursive: true });
    await Deno.writeTextFile(`${root}/${path}`, content);
  }
  const { success, output } = await runCommand(["git", "init", "-q", root], CONDITION_BOUND_MS);
  assert(success, output);
  return { root, [Symbol.asyncDispose]: () => Deno.remove(root, { recursive: true }) };
}

Deno.test("drawMutants() draws the same for a seed, others for another, and none of generated files", async () => {
  await using project = await plantProject();
  const draw = (seed: number) => drawMutants(project.root, ["core", "core/limit.ts"], seed);
  const shown = (seed: number) => draw(seed).map(({ path, start }) => `${path}:${start}`);
  assertEquals(shown(1), shown(1));
  assertEquals(shown(1).toSorted(), shown(2).toSorted());
  assert([2, 3, 4, 5, 6, 7].some((seed) => shown(seed).join() !== shown(1).join()));
  assertEquals(shown(1).length, 3);
  assertEquals(shown(1).filter((text) => text.includes("generated")), []);
});

Deno.test("seedsOf() makes three seeds from the hash of a commit", () => {
  assertEquals(seedsOf("000000a000000b000000c" + "f".repeat(19)), [10, 11, 12]);
});

Deno.test("nearness() prefers the folder of a source file, and there its namesakes", () => {
  const source = "redis/waiting/inbox.ts";
  const tests = [
    "tests/redis/waiting/inbox_order_test.ts",
    "tests/redis/waiting/waiters_test.ts",
    "tests/redis/inbox_test.ts",
    "tests/redis/lock_test.ts",
    "tests/file/inbox_test.ts",
  ];
  assertEquals(tests.map((test) => nearness(source, test)), [5, 4, 3, 2, 0]);
});

Deno.test("deno task mutants explains itself, and refuses what it cannot mutate", async () => {
  const run = async (...args: string[]) => {
    const child = spawnProcess([...scriptCommand(MAIN), ...args], {
      stdout: "pipe",
      stderr: "pipe",
    });
    const [output, errors] = await Promise.all([text(child.stdout!), text(child.stderr!)]);
    return { output, errors, code: (await child.ended).code };
  };
  assertStringIncludes((await run("--help")).output, "Usage: deno task mutants");
  const wrong: [args: string[], text: string][] = [
    [["--only", "tests"], 'Cannot mutate "tests"'],
    [["--only", "core/no"], 'Cannot mutate "core/no"'],
    [["--count", "0"], 'Cannot use "0" for --count'],
  ];
  for (const [args, expected] of wrong) {
    const { errors, code } = await run(...args);
    assertStringIncludes(errors, expected);
    assertEquals(code, 2);
  }
});

Deno.test(
  "Reach knows lines that are reached in part, and in child processes, and the tests of other runtimes",
  UNBOUND,
  async () => {
    const PARTS = `
    export function first(a: number): number {
      if (a > 1) return 1;
      if (a > 0) {
        return a;
      }
      return 0;
    }
    export function second(): string {
      return "unused";
    }
  `;
    const PARTS_TEST = `
    import { first } from "../../core/parts.ts";
    Deno.test("first()", () => void first(0));
  `;
    const tests = ["tests/core/parts_test.ts", "tests/child_test.ts"];
    const [other, stranger] = [
      "tests/npm/core_runtimes_test.ts",
      "tests/npm/file_runtimes_test.ts",
    ];
    await using project = await plantProject({
      ...FILES,
      ...{ "core/parts.ts": PARTS, [tests[0]!]: PARTS_TEST, [other]: "", [stranger]: PARTS_TEST },
    });
    const { root } = project;
    const reach = await Reach.of([...tests, other, stranger], {
      ...{ root, tree: "t", cwd: root, args: ["-A"], filter: undefined, factor: new TimeFactor() },
      ...{ signal: new AbortController().signal, print: () => {} },
    });
    const reached = [2, 3, 4, 5, 7, 9, 10].filter((line) =>
      reach.testsOf("core/parts.ts", line).isReached
    );
    assertEquals(reached, [2, 3, 4, 7, 9]);
    const testsOf = (path: string, line: number) => reach.testsOf(path, line).tests;
    assertEquals(testsOf("core/parts.ts", 9), [tests[0]!, other]);
    assertEquals(testsOf("core/parts.ts", 10), [other, tests[0]!]);
    assertEquals(reach.testsOf("core/other.ts", 3), { tests: [tests[1]!, other], isReached: true });
    assertEquals(reach.testsOf("core/limit.ts", 4), { tests: [other], isReached: false });
    assertEquals(testsOf("redis/lock.ts", 1), []);
  },
);

Deno.test(
  "runMutants() tells the mutants that a test file kills from those that survive",
  UNBOUND,
  async () => {
    await using project = await plantProject();
    const { root } = project;
    const printed: string[] = [];
    const tests = Object.keys(FILES).filter((path) => path.endsWith("_test.ts"));
    await using copies = await Copies.of(root);
    const { outcomes, unstable } = await runMutants({
      ...{ root, copies, sources: ["core"], tests, seed: 1, count: 10 },
      argsFor: () => Promise.resolve(["-A"]),
      signal: new AbortController().signal,
      print: (line) => printed.push(line),
    });
    const byText = outcomes.map(({ mutant, killer }) => [diffOf(mutant.text, mutant)[1], killer]);
    assertEquals(
      new Map(byText as [string, string | undefined][]),
      new Map([
        // Through a child process.
        ["+ return a !== 3;", "tests/child_test.ts"],
        ["+ return a === 6;", "tests/child_test.ts"],
        // At the limit no test looks. The unstable test fails, but also without the mutation.
        ["+ return count >= limit;", undefined],
      ]),
    );
    assertEquals([...unstable], [["tests/core/limit_unstable_test.ts", 1]]);
    const report = reportOf({ outcomes, unstable }).join("\n");
    assertStringIncludes(report, "core/limit.ts:4 condition: 1 of 2 test files that reach it pass");
    assertStringIncludes(report, "\n- return count > limit;\n+ return count >= limit;\n");
    assertStringIncludes(report, "2 of 3 mutants killed, 66.7 %");
    assertEquals(printed.filter((line) => line.startsWith("Reach of ")).length, tests.length);
    // The project itself was never changed.
    assertEquals(await Deno.readTextFile(`${root}/core/limit.ts`), LIMIT);
    assertEquals(await Deno.readTextFile(`${root}/core/other.ts`), OTHER);
  },
);

Deno.test(
  "runMutants() stops at once when it is interrupted, and keeps what it has measured",
  UNBOUND,
  async () => {
    await using project = await plantProject();
    const { root } = project;
    const controller = new AbortController();
    await using copies = await Copies.of(root);
    const copy = await copies.make();
    const { outcomes } = await runMutants({
      ...{
        root,
        copies,
        sources: ["core"],
        tests: ["tests/core/limit_test.ts"],
        seed: 1,
        count: 3,
      },
      argsFor: () => Promise.resolve(["-A"]),
      signal: controller.signal,
      print: () => controller.abort("SIGTERM"),
    });
    assertEquals(outcomes, []);
    const map = `${root}/.mutants/${copies.tree}/tests/core/limit_test.ts.json`;
    assertEquals(JSON.parse(await Deno.readTextFile(map)).lines["core/limit.ts"].includes(4), true);
    await copies[Symbol.asyncDispose]();
    assertEquals(await Deno.stat(copy).then(() => true, () => false), false);
  },
);
