import { assertEquals } from "@std/assert";
import { findAwaitedTimers, LIMIT } from "../../tools/awaited_timers/find.ts";
import { judge } from "../../tools/awaited_timers/main.ts";
import { readSource } from "../../tools/awaited_timers/source.ts";

const PAUSE = `
  export function pause(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => { clearTimeout(timer); resolve(); };
      const timer = setTimeout(done, ms);
      signal?.addEventListener("abort", done);
    });
  }
  export async function waitUntil(condition: () => boolean) {
    while (!condition()) await pause(5);
  }
  export function within<T>(work: Promise<T>, ms: number): Promise<T> {
    const bound = new Promise<never>((_, reject) => setTimeout(() => reject(new Error()), ms));
    return Promise.race([work, bound]);
  }
`;
const IMPORT = `import { pause, waitUntil, within } from "../testing/wait.ts";`;

/** Searches a test with this text, and other files. */
function found(text: string, others: Record<string, string> = {}): string[] {
  const files = { "testing/wait.ts": PAUSE, "tests/a_test.ts": `${IMPORT}\n${text}`, ...others };
  const sources = Object.entries(files).map(([path, code]) => readSource(path, code));
  return findAwaitedTimers(sources).map(({ text, count, hasReason }) =>
    `${count === 1 ? "" : `${count} × `}${text}${hasReason ? " (reason)" : ""}`
  );
}

/** Searches the callback of a test. */
function foundIn(body: string): string[] {
  return found(`Deno.test("a", async () => {\n${body}\n});`);
}

Deno.test("findAwaitedTimers() finds a timer that a test awaits, returns or races", () => {
  for (
    const line of [
      "await pause(5);",
      "return pause(5);",
      "const end = pause(5);",
      "await Promise.race([work, pause(5).then(() => false)]);",
      "await Promise.all([1, 2].map(() => pause(5)));",
      "await new Promise((resolve) => setTimeout(resolve, 5));",
      "await new Promise<void>((done) => void setTimeout(() => done(), 5));",
      "const { promise, resolve } = Promise.withResolvers<void>(); setTimeout(resolve, 5);",
      "const end = Promise.withResolvers<void>(); setTimeout(end.resolve, 5);",
    ]
  ) assertEquals(foundIn(line), [line]);
  for (
    const module of [
      `import { setTimeout as sleep } from "node:timers/promises";`,
      `import { delay as sleep } from "@std/async";`,
    ]
  ) assertEquals(found(`${module}\nawait sleep(5);`), ["await sleep(5);"]);
});

Deno.test("findAwaitedTimers() finds a timer through helpers that get the time", () => {
  const helpers = `
    const hold = async ({ holdMs }: { holdMs: number }) => { await pause(holdMs); };
    export async function holdTwice(ms: number) { await hold({ holdMs: ms }); }
  `;
  assertEquals(found(`${helpers}\nawait holdTwice(50);`), ["await holdTwice(50);"]);
  const other = `${IMPORT}\n${helpers}`;
  const names = `export { holdTwice as holds } from "../tests/hold.ts";`;
  const use = `import { holds } from "../testing/names.ts";\nawait holds(50);`;
  assertEquals(found(use, { "tests/hold.ts": other, "testing/names.ts": names }), [
    "await holds(50);",
  ]);
});

Deno.test("findAwaitedTimers() counts each use of a helper whose time is fixed", () => {
  const settle = `${IMPORT}\nexport async function settle() {\nawait pause(0);\n}`;
  const uses = `import { settle } from "./settle.ts";\nawait settle();\nawait settle();`;
  assertEquals(found(uses, { "tests/settle.ts": settle }), ["2 × await pause(0);"]);
});

Deno.test("findAwaitedTimers() finds a timer in a loop that checks only time or rounds", () => {
  for (
    const loop of [
      "for (let i = 0; i < 10; i++) await pause(5);",
      "for (const each of all) await pause(5);",
      "while (performance.now() < endMs) await pause(5);",
      "let i = 0; while (i < 10) { i++; await pause(5); }",
      "let i = 10; while (i-- > 0) await pause(5);",
      "while (true) { await pause(5); if (performance.now() > endMs) break; }",
      "for (;;) { await pause(5); for (const each of all) { if (each) break; } }",
      "while (!isEnded) { for (let i = 0; i < 3; i++) await pause(5); }",
    ]
  ) assertEquals(foundIn(loop), [loop]);
});

Deno.test("findAwaitedTimers() accepts a loop that checks a condition", () => {
  for (
    const loop of [
      "while (!isEnded) await pause(5);",
      "do { await pause(5); } while (!await isEnded());",
      "for (; !isEnded; await pause(5)) step();",
      "for (let i = 0; i < 100 && !isEnded; i++) await pause(5);",
      "for (let i = 0; i < 100; i++) { if (isEnded) break; await pause(5); }",
      "for (;;) { if (isEnded) return; await pause(5); }",
      "for (;;) { try { return await connect(); } catch { await pause(5); } }",
      "while (!isEnded && performance.now() < endMs) await pause(5);",
      "while (entered < 10) await Promise.race([pause(5), work]);",
      "await waitUntil(() => isEnded);",
    ]
  ) assertEquals(foundIn(loop), [], loop);
});

Deno.test("findAwaitedTimers() accepts a bound that fails, and a timer that nothing waits for", () => {
  for (
    const line of [
      "await within(work, 1_000);",
      `await Promise.race([work, pause(5).then(() => { throw new Error("late"); })]);`,
      "void pause(5);",
      "setTimeout(() => proxy.cut(), 5);",
      "await server.pause();",
    ]
  ) assertEquals(foundIn(line), [], line);
});

Deno.test("findAwaitedTimers() follows names by their scope", () => {
  assertEquals(found(`async function run(pause: () => Promise<void>) { await pause(); }`), []);
  assertEquals(found(`{ const pause = () => Promise.resolve(); await pause(); }`), []);
  assertEquals(found(`interface Server { pause(ms: number): Promise<void>; }`), []);
});

Deno.test("findAwaitedTimers() reads the comment directly above", () => {
  assertEquals(foundIn("// No condition: nothing\n// tells it.\nawait pause(5);"), [
    "await pause(5); (reason)",
  ]);
  assertEquals(foundIn("// No condition: nothing tells it.\nstep();\nawait pause(5);"), [
    "await pause(5);",
  ]);
  assertEquals(foundIn("// No condition:\nawait pause(5);"), ["await pause(5);"]);
});

Deno.test("findAwaitedTimers() ignores workloads, which a test itself cannot be", () => {
  const comment = "// Paces a workload: it kills processes.";
  assertEquals(found(`${comment}\nasync function kill() {\nawait pause(5);\n}\nawait kill();`), []);
  assertEquals(found(`${comment}\nexport const kill = async () => {\nawait pause(5);\n};`), []);
  assertEquals(found(`const load = {\n${comment}\nasync run() {\nawait pause(5);\n} };`), []);
  assertEquals(found(`${comment}\nDeno.test("a", async () => {\nawait pause(5);\n});`), [
    "await pause(5);",
  ]);
  const file = `${comment}\n${IMPORT}\nawait pause(5);`;
  assertEquals(found("", { "testing/load.ts": file }), []);
  assertEquals(found("", { "tests/load.ts": file }), ["await pause(5);"]);
});

Deno.test("judge() accepts only timers that have reasons, and not too many", () => {
  const timer = { path: "tests/a_test.ts", line: 1, text: "await pause(5);", hasReason: true };
  const isGood = (timers: Parameters<typeof judge>[0]) => judge(timers).isGood;
  assertEquals(isGood([]), true);
  assertEquals(isGood([{ ...timer, count: LIMIT }]), true);
  assertEquals(isGood([{ ...timer, count: LIMIT + 1 }]), false);
  assertEquals(isGood([{ ...timer, count: 1, hasReason: false }]), false);
  assertEquals(
    judge([{ ...timer, count: 2, hasReason: false }]).lines[0],
    "tests/a_test.ts:1: 2 times await pause(5);",
  );
});
