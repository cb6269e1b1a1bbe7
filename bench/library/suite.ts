/**
 * A suite of the benchmark, and the result that it hands to the report.
 *
 * @module
 */
import type { Figure } from "./figures.ts";
import type { Plot } from "./plots.ts";
import type { Progress } from "./progress.ts";
import type { Table } from "./tables.ts";

/** How much is measured. */
export interface SuiteOptions {
  /** Measures the named subset of about two minutes. */
  readonly isQuick: boolean;
  /** The number of interleaved rounds; each suite has its own default. */
  readonly rounds?: number;
  /** The number of concurrent requests of the suite `http`. */
  readonly clients: number;
}

/** The things that a suite may use while it measures. */
export interface SuiteContext {
  readonly options: SuiteOptions;
  readonly progress: Progress;
}

/** A figure with its limit. */
export interface Verdict {
  readonly title: string;
  readonly value: number;
  /** The greatest allowed value. */
  readonly limit: number;
}

/** The outcome of a suite. */
export interface SuiteResult {
  readonly tables: readonly Table[];
  readonly plots: readonly Plot[];
  readonly verdicts: readonly Verdict[];
  /** Facts that a reader needs for the tables, a paragraph each. */
  readonly notes: readonly string[];
  readonly figures: readonly Figure[];
  /** The versions of programs that only this suite uses. */
  readonly versions?: Readonly<Record<string, string>>;
}

/** A part of the benchmark that can be run alone. */
export interface Suite {
  readonly name: string;
  readonly title: string;
  /** Starts its own servers, and measures. */
  measure(context: SuiteContext): Promise<SuiteResult>;
}

/** Whether a figure is within its limit; NaN is not. */
export function isWithin({ value, limit }: Verdict): boolean {
  return value <= limit;
}
