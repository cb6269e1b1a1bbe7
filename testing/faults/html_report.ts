/**
 * The report of a run as an HTML page with pictures.
 *
 * @module
 */
import { type Call, callsOf } from "./calls.ts";
import type { Verdict, Violation } from "./checker.ts";
import type { History } from "./history.ts";
import { kindsOf, textReport } from "./report.ts";
import { escape } from "./svg.ts";
import { overview, sampleFrom, type Span, spansAround, spanText, timeline } from "./timelines.ts";

/** The largest numbers of pictures of violations and of excused findings. */
const PICTURES = 12;
const EXCUSED_PICTURES = 3;
/** The length in µs of the sample around the first fault. */
const SAMPLE_US = 2e6;

const STYLE = `
:root { color-scheme: light; font: 14px/1.45 system-ui, sans-serif; color: #1d2433; }
body { max-width: 1560px; margin: 24px auto; padding: 0 24px; background: #fff; }
h1 { font-size: 22px; margin: 0 0 4px } h2 { font-size: 16px; margin: 28px 0 6px }
.good { color: #1a7f4b } .bad { color: #c4182b }
pre { font: 12px/1.5 ui-monospace, monospace; background: #f5f6f9; padding: 12px; overflow: auto; }
svg { width: 100%; height: auto; border: 1px solid #dfe3ea; border-radius: 4px; background: #fff }
svg text { font: 11px ui-monospace, monospace; fill: #3a4356 } svg text.time { fill: #7b8496 }
.mark { stroke: #e8ebf1 } .grants { fill: #7d9bd1 }
.fault { fill: #f4b860; opacity: .55 } .destructive { fill: #d2603a }
.wait { opacity: .35 } .lost { fill: #111 } .refused { fill: #c4182b }
line.violation { stroke: #e0102a; stroke-width: 1.6 } text.violation { fill: #c4182b }
.excused { stroke: #a05bd0; stroke-width: 1 }
.name0 { fill: #2f6fde } .name1 { fill: #1f9d72 } .name2 { fill: #9a5fc9 }
.name3 { fill: #c8861a } .name4 { fill: #3aa3b8 } .name5 { fill: #b8517f }
.legend span { margin-right: 18px; white-space: nowrap } .legend svg { width: 26px; height: 12px;
  border: 0; vertical-align: -1px; margin-right: 5px }
`;

const LEGEND: readonly [className: string, height: number, text: string][] = [
  ["wait name0", 4, "waits (a colour per name)"],
  ["lease name0", 12, "lease, until its release, loss or deadline"],
  ["lost", 12, "lost"],
  ["refused", 12, "write refused"],
  ["fault", 12, "fault"],
  ["fault destructive", 12, "fault that may lose data"],
];

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
    legend(),
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

function legend(): string {
  const entries = LEGEND.map(([className, height, text]) => {
    const box = `y="${(12 - height) / 2}" width="26" height="${height}" class="${className}"`;
    return `<span><svg viewBox="0 0 26 12"><rect ${box}/></svg>${text}</span>`;
  });
  return `<p class="legend">${entries.join("")}</p>`;
}

function page(title: string, parts: readonly string[]): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${escape(title)}</title>
<style>${STYLE}</style></head>
<body>
${parts.join("\n")}
</body></html>
`;
}
