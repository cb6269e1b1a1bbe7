/**
 * The command line of `deno task bench`.
 *
 * @module
 */
import { parseArgs } from "node:util";
import type { SuiteOptions } from "./library/suite.ts";

/** Where the report of a full run goes. README shows a part of it. */
export const REPORT = "docs/bench";

/** The order to run suites. */
export interface BenchCommand {
  readonly suites: readonly string[];
  /** The directory of the report. */
  readonly out: string;
  /** Whether the pages are written again from stored numbers, without measuring. */
  readonly isRender: boolean;
  readonly options: SuiteOptions;
}

/** The text for `--help`. */
export function usageOf(suites: readonly string[]): string {
  return `Usage: deno task bench [SUITE…] [--quick] [--rounds N] [--clients N] [--out DIR] [--render]

Measures what locks cost, beside other packages and beside the least work that could do the same job.
Starts its own servers. Writes tables, plots and raw numbers. Use an idle machine. Exits with 1 if a
ratio exceeds its limit, with 2 if an argument is wrong.

  SUITE…       ${suites.join(" ")}
               (all by default; with --quick: uncontended contended)
  --quick      a subset of about two minutes: 1 and 64 calls in flight, 2 and 100 waiters
  --rounds N   the number of interleaved rounds
  --clients N  the number of concurrent requests in http (1 by default)
  --out DIR    where the report goes (docs/bench by default; docs/bench/quick with --quick)
  --render     only writes the pages and plots again, from the stored numbers
  --help       prints this text`;
}

/** The suites of a quick run that names none. */
const QUICK_SUITES = ["uncontended", "contended"];

/** Reads the command line; null for `--help`. Throws an error that says what is wrong. */
export function readCommand(args: string[], known: readonly string[]): BenchCommand | null {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      quick: { type: "boolean", default: false },
      rounds: { type: "string" },
      clients: { type: "string", default: "1" },
      out: { type: "string" },
      render: { type: "boolean", default: false },
      help: { type: "boolean" },
    },
  });
  if (values.help) return null;
  const unknown = positionals.find((name) => !known.includes(name));
  if (unknown !== undefined) {
    throw new TypeError(`Cannot run the suite "${unknown}": choose from ${known.join(", ")}`);
  }
  const isQuick = values.quick;
  const suites = positionals.length > 0 ? positionals : isQuick ? QUICK_SUITES : known;
  return {
    suites,
    out: values.out ?? (isQuick ? `${REPORT}/quick` : REPORT),
    isRender: values.render,
    options: {
      isQuick,
      clients: wholeNumber("--clients", values.clients),
      ...values.rounds !== undefined && { rounds: wholeNumber("--rounds", values.rounds) },
    },
  };
}

function wholeNumber(option: string, text: string): number {
  const number = Number(text);
  if (Number.isInteger(number) && number >= 1 && number <= 1_000) return number;
  throw new RangeError(`Cannot use ${option} ${text}: give a whole number from 1 to 1000`);
}
