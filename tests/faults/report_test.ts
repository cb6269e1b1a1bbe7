import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { check } from "../../testing/faults/checker.ts";
import type { FaultEvent, History } from "../../testing/faults/history.ts";
import { randomHistory } from "../../testing/faults/random_history.ts";
import { htmlReport } from "../../testing/faults/html_report.ts";
import { textReport } from "../../testing/faults/report.ts";

const SEED = 7;

/** A run in which one holder kept the lock 5 ms too long, with a fault that does not excuse it. */
function badHistory(calls: number): History {
  const history = randomHistory(SEED, calls, 2);
  const releases = history.events.filter(({ kind }) => kind === "releasing");
  const { call, atUs, worker } = releases[Math.floor(releases.length / 2)]!;
  const faults: FaultEvent[] = [
    { atUs: atUs - 1_000, untilUs: atUs + 9_000, fault: "freeze", target: worker },
    { atUs: 10, fault: "<script>", target: 'redis & "co"' },
  ].map((fault) => ({ ...fault, destructive: false }));
  const events = history.events.map((event) =>
    event.call === call && event.kind.startsWith("releas")
      ? { ...event, atUs: event.atUs + 5_000 }
      : event
  );
  return { ...history, events, faults };
}

Deno.test("textReport() prints the seed, the counts, the faults and the violations", () => {
  const clean = randomHistory(SEED, 100, 1);
  const good = textReport(clean, check(clean));
  assertMatch(good, /^ok: redis, seed 7, /);
  assertMatch(good, /100 calls: \d+ granted/);
  assertMatch(good, /faults: none\n {2}violations: none; excused: none$/);
  const history = badHistory(1_000);
  const text = textReport(history, check(history));
  assertMatch(text, /^FAILED: redis, seed 7/);
  assertMatch(text, /faults: <script> 1, freeze 1/);
  assertMatch(text, /overlap of "n\d" at \d+\.\d{6} s: w\d+\.0's lease \d+ overlaps w\d+\.0's/);
  assertMatch(text, /releasing\n/);
  assertMatch(text, /fault: freeze of w\d+\.0 at/);
});

Deno.test("htmlReport() is well-formed and self-contained, and shows the violations", () => {
  const history = badHistory(1_000);
  const verdict = check(history);
  const html = htmlReport(history, verdict);
  for (const tag of ["svg", "rect", "text", "h2", "ul", "li", "pre", "title"]) {
    const opened = html.match(new RegExp(`<${tag}[ >]`, "g"))?.length;
    const closed = html.match(new RegExp(`</${tag}>`, "g"))?.length;
    const empty = html.match(new RegExp(`<${tag}[^>]*/>`, "g"))?.length ?? 0;
    assertEquals(opened, closed! + empty, tag);
  }
  assert(!html.includes("<script"), "texts are escaped");
  assert(!/(href|src)=/.test(html), "needs nothing else");
  assert(!/NaN|undefined|Infinity/.test(html));
  assertStringIncludes(html, `class="violation"><title>overlap: `);
  assertStringIncludes(html, "&#60;script&#62; of redis &#38; &#34;co&#34;");
  for (let worker = 0; worker < 20; worker++) assertStringIncludes(html, `>w${worker}.0</text>`);
});

/** Without a bound, each call would take some hundred characters. */
const CALLS = Deno.env.get("HOLDFAST_SOAK") ? 100_000 : 20_000;

Deno.test(`htmlReport() stays below 6 million characters for ${CALLS.toLocaleString("en")} calls`, () => {
  const history = badHistory(CALLS);
  const html = htmlReport(history, check(history));
  assert(html.length < 6_000_000, `${html.length}`);
});
