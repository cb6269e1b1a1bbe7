/**
 * The report of a run as an HTML page with pictures.
 *
 * @module
 */
import { page } from "../../timeline/drawing/page.ts";
import { escape } from "../../timeline/drawing/svg.ts";
import { type Call, callsOf } from "./calls.ts";
import type { Verdict, Violation } from "./checker.ts";
import type { History } from "./history.ts";
import { kindsOf, textReport } from "./report.ts";
import { overview, sampleFrom, type Span, spansAround, spanText, timeline } from "./timelines.ts";

/** The largest numbers of pictures of violations and of excused findings. */
const PICTURES = 12;
const EXCUSED_PICTURES = 3;
/** The length in µs of the sample around the first fault. */
const SAMPLE_US = 2e6;

/** The run as one self-contained page: an overview, and pictures of the violations. */
export function htmlReport(history: History, verdict: Verdict): string {
  const calls = callsOf(history);
  const { isGood, counts, violations, excused } = verdict;
  const title = `${history.strategy}, seed ${history.seed}`;
  const pictures = (found: readonly Violation[], limit: number) =>
    spansAround(found, history).slice(0, limit).map((span) => {
      const text = found.filter(({ atUs }) => atUs >= span.fromUs && atUs <= span.toUs)
        .map(({ kind, message }) => `<li>${kind}: ${escape(message)}</li>`).slice(0, PICTURES);
      return `<h2>${spanText(span, history)}</h2><ul>${text.join("")}</ul>` +
        timeline(span, history, found, calls);
    });
  const sample = sampleOf(history, calls);
  return page(title, [
    `<h1>${escape(title)}: <span class="${isGood ? "good" : "bad"}">` +
    `${isGood ? "no violation" : escape(kindsOf(counts.violations))}</span></h1>`,
    "<h2>The whole run</h2>",
    overview(history, verdict, calls),
    ...pictures(violations, PICTURES),
    ...excused.length > 0 ? ["<h2>Excused by faults</h2>"] : [],
    ...pictures(excused, EXCUSED_PICTURES),
    `<h2>A sample: ${spanText(sample, history)}</h2>`,
    timeline(sample, history, violations, calls),
    `<h2>In words</h2><pre>${escape(textReport(history, verdict))}</pre>`,
  ]);
}

function sampleOf({ startUs, endUs, faults }: History, calls: readonly Call[]): Span {
  const firstUs = Math.min(endUs, ...faults.slice(0, 1).map(({ atUs }) => atUs));
  const fromUs = faults.length > 0 ? Math.max(startUs, firstUs - SAMPLE_US / 10) : startUs;
  return sampleFrom(fromUs, Math.min(SAMPLE_US, endUs - fromUs), calls);
}
