import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { Event } from "../../examples/demo/history.ts";
import { drawPicture, shownHolds } from "../../examples/demo/picture.ts";
import { runDemo } from "../../testing/examples/run_demo.ts";
import { makeTempDirectory } from "../../testing/runtime/temporary_files.ts";

const MAX_BYTES = 30_000;
const HOLDING = "#0969da";
const KILLED = "#cf222e";

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

/** Finds what has a colour; a rule of the style is not counted. */
function painted(colour: string): RegExp {
  return new RegExp(`fill="${colour}"(?!\\])`, "g");
}

function count(svg: string, pattern: RegExp): number {
  return svg.match(pattern)?.length ?? 0;
}

Deno.test("drawPicture() draws each hold and each token, and a killed worker", async () => {
  const svg = await drawPicture(runOf(12, 5), "Four workers & a lock");
  // A square of the legend has the colour too, and each hold a point in the line of tokens.
  assertEquals(count(svg, painted(HOLDING)), 12 + 1 + 12);
  assertEquals(count(svg, painted(KILLED)), 1 + 1);
  for (
    const text of ["Four workers &amp; a lock", "worker 4", "was killed while it held the lock"]
  ) {
    assertStringIncludes(svg, text);
  }
  assertMatch(svg, /^<svg [^>]*xmlns="http:\/\/www.w3.org\/2000\/svg"[^>]*><style>/);
  assertEquals(count(await drawPicture(runOf(12), "a"), painted(KILLED)), 0);
});

Deno.test("drawPicture() has a background and a second colour for each one that it uses", async () => {
  const svg = await drawPicture(runOf(12, 5), "a");
  const [, dark = ""] = /<style>@media \(prefers-color-scheme:dark\){(.*?)}<\/style>/.exec(svg)!;
  const used = new Set(svg.match(/(?:fill|stroke)="#[0-9a-f]+"/g));
  assert(used.size >= 6, [...used].join());
  for (const attribute of used) assertStringIncludes(dark, `[${attribute}]{`);
  assertMatch(svg, /<rect width="(\d+)" height="(\d+)" fill="#ffffff"\/>/);
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

Deno.test("drawPicture() stays small enough for a page", async () => {
  const { length } = await drawPicture(runOf(400, 100), "a");
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
