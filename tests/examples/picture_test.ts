import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { Event } from "../../examples/demo/history.ts";
import { drawRun, shownHolds } from "../../examples/demo/picture.ts";
import { runDemo } from "../../testing/examples/run_demo.ts";
import { makeTempDirectory } from "../../testing/runtime/temporary_files.ts";

const MAX_BYTES = 30_000;

/** A run in which workers hold the lock in turn for 8 of 10 ms; one may be killed in its hold. */
function runOf(holds: number, killedHold = -1) {
  const workers = 4;
  const events = Array.from({ length: holds }, (_, i): Event[] => {
    const [worker, round, atMs] = [1 + i % workers, Math.floor(i / workers), 1e12 + i * 10];
    const end = i === killedHold
      ? { event: "killed" as const, worker, round, atMs: atMs + 8 }
      : { event: "finished" as const, worker, round, atMs: atMs + 8 };
    return [
      { event: "granted", worker, round, token: `${10n ** 15n + BigInt(i)}`, waitedMs: 5, atMs },
      end,
    ];
  }).flat();
  const account = { balance: holds, deposits: [], lastToken: 0n };
  return { workers, rounds: holds / workers, kill: killedHold >= 0, events, failures: [], account };
}

function count(svg: string, className: string): number {
  return svg.split(`class="${className}"`).length - 1;
}

Deno.test("drawRun() draws each hold and its wait, the tokens, and a killed worker", () => {
  const svg = drawRun(runOf(12, 5), "Four workers & a lock");
  // The legend has one of each.
  assertEquals([count(svg, "lease name0"), count(svg, "wait name0")], [12 + 1, 12 + 1]);
  assertEquals([count(svg, "killed"), count(svg, "chart")], [1 + 1, 1]);
  assertEquals(/<path d="([^"]*)"/.exec(svg)![1]!.split("V").length - 1, 12); // the first is 0
  for (
    const text of ["Four workers &#38; a lock", "worker 4", "was killed while it held the lock"]
  ) {
    assertStringIncludes(svg, text);
  }
  assertMatch(svg, /^<svg xmlns="http:\/\/www.w3.org\/2000\/svg"[^>]*><style>/);
  assertEquals(count(drawRun(runOf(12), "a"), "killed"), 0);
});

Deno.test("drawRun() has a background, and a light and a dark colour for each class that it uses", () => {
  const svg = drawRun(runOf(12, 5), "a");
  const [, light = "", dark = ""] =
    /<style>([^]*)@media \(prefers-color-scheme:dark\){([^]*)}<\/style>/.exec(svg)!;
  for (const [, names] of svg.matchAll(/ class="([^"]+)"/g)) {
    for (const name of names!.split(" ").filter((name) => !["wait", "lease"].includes(name))) {
      for (const rules of [light, dark]) {
        assertMatch(rules, new RegExp(`\\.${name}[,{]`), name);
      }
    }
  }
  assertMatch(svg, /<rect width="(\d+)" height="(\d+)" class="paper"\/>/);
});

Deno.test("shownHolds() shows 40 holds at most: the first ones, or those around the kill", () => {
  const numbers = (run: ReturnType<typeof runOf>) =>
    shownHolds(run).map(({ token }) => Number(token - 10n ** 15n));
  assertEquals(numbers(runOf(8)), Array.from(Array(8).keys()));
  assertEquals(numbers(runOf(100)), Array.from(Array(40).keys()));
  for (const killed of [0, 50, 99]) {
    const shown = numbers(runOf(100, killed));
    assertEquals(shown.length, 40);
    assert(shown.includes(killed), `${killed} of ${shown}`);
  }
});

Deno.test("drawRun() stays small enough for a page", () => {
  const { length } = drawRun(runOf(400, 100), "a");
  assert(length < MAX_BYTES, `${length} bytes`);
});

Deno.test("docs/demo.svg is a picture of the demo, and small", () => {
  const svg = Deno.readTextFileSync(new URL("../../docs/demo.svg", import.meta.url));
  assert(svg.length < MAX_BYTES, `${svg.length} bytes`);
  for (const text of ["prefers-color-scheme:dark", "file lock", "was killed while"]) {
    assertStringIncludes(svg, text);
  }
});

Deno.test("demo.ts --svg writes the picture of the run", async () => {
  const dir = await makeTempDirectory();
  const file = `${dir}/demo.svg`;
  const { code, out, errors } = await runDemo(
    ...["--workers", "2", "--rounds", "3", "--svg", file],
  );
  assertEquals([code, errors], [0, ""]);
  assertStringIncludes(out, `The picture is in ${file}\n`);
  assertStringIncludes(Deno.readTextFileSync(file), "2 workers share one file lock");
  await Deno.remove(dir, { recursive: true });
});

Deno.test("demo.ts exits with 2 when --svg names no file", async () => {
  const { code, errors } = await runDemo("--svg", "");
  assertEquals(code, 2);
  assertStringIncludes(errors, "give the name of a file");
});
