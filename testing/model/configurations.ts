/**
 * The standard runs of the model: faults that the protocol must survive, and rules that it needs.
 *
 * @module
 */
import { readFileSync } from "node:fs";

/** The model with certain switches and budgets of faults. */
export interface Configuration {
  readonly name: string;
  /** Definitions, such as `B_CUT=1`. */
  readonly definitions: readonly string[];
  /** Whether a rule is left out, so that a counterexample must be found. */
  readonly mustFail: boolean;
}

/** The faults of the standard runs; the search covers all states of each. */
const FAULTS: Readonly<Record<string, string>> = {
  "cut-stale-expiry": "B_CUT=1 B_STALE=1 B_EXP=1",
  "cut-stale-abort": "B_CUT=1 B_STALE=1 B_ABORT=1",
  "timeout-late": "B_TIMEOUT=1 B_LATE=1 B_EARLY=1",
  "crash-gap-lost-message": "B_CRASH=1 B_GAP=1 B_LOSE=1",
  "error-noscript": "B_ERR=1 B_NOSCR=1 B_CUT=1",
  "flush": "B_FLUSH=1 B_CUT=1",
  "foreign-holder": "B_FOREIGN=1 B_EXP=1",
  "try": "TRYC=1 B_CUT=1 B_STALE=1",
  "steal": "STEALC=1 B_CUT=1",
  "pause": "PAUSE=1 B_EXP=1",
  "two-attempts": "K=2 K1=1 B_ABORT=1",
  "three-clients": "NC=3",
};

const COUNTEREXAMPLES = new URL("./counterexamples.txt", import.meta.url);

/** The standard runs: first the faults, then one run per omitted rule, read from `counterexamples.txt`. */
export function configurations(): Configuration[] {
  const faults = Object.entries(FAULTS).map(([name, definitions]) => (
    { name, definitions: definitions.split(" "), mustFail: false }
  ));
  return [...faults, ...leftOut(readFileSync(COUNTEREXAMPLES, "utf8"))];
}

/** Reads configurations from a text of counterexamples: lines such as `== NAME -DTOMB=0 -DB_CUT=1`. */
export function leftOut(text: string): Configuration[] {
  return [...text.matchAll(/^== (\S+) (.+)$/gm)].map(([, name = "", flags = ""]) => (
    { name, definitions: flags.split(" ").map((flag) => flag.slice(2)), mustFail: true }
  ));
}
