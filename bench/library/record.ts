/**
 * The record of a suite: its result, and all that is needed to judge it later.
 *
 * @module
 */
import type { Machine } from "./machine.ts";
import type { SuiteOptions, SuiteResult } from "./suite.ts";

/** A measured suite, as it is stored. */
export interface SuiteRecord extends SuiteResult {
  readonly suite: string;
  readonly title: string;
  /** The command that measures it again. */
  readonly command: string;
  readonly options: SuiteOptions;
  readonly machine: Machine;
  readonly seconds: number;
}

/** Reads a result or a record. JSON has no NaN: where numbers are expected, it has null instead. */
export function parseResult<T extends SuiteResult = SuiteRecord>(text: string): T {
  return JSON.parse(text, (_, value) => value === null ? NaN : value);
}
