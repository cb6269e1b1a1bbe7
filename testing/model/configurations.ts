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
  /** Whether to search for clients that wait forever, instead of broken assertions. */
  readonly isLiveness: boolean;
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
  "search-crash": "NC=3 BOUND=1 B_CRASH=1 B_LOSE=1 SYNC=1 SLOWEND=0",
  "search-lapse-gap": "NC=3 BOUND=1 B_LAPSE=1 B_GAP=1 SYNC=1 SLOWEND=0",
  "search-lapsed-claim": "NC=3 BOUND=1 B_EXP=1 SYNC=1 SLOWEND=0",
  "search-set-aside": "NC=3 BOUND=2 ASIDE=1 B_LAPSE=1 B_GAP=1 SYNC=1 SLOWEND=0",
  "process-gap-lost-message": "NC=3 SHARE=1 B_GAP=1 B_LOSE=1 SYNC=1 SLOWEND=0",
  "process-lapsed-claim": "NC=3 SHARE=1 B_EXP=1 SYNC=1 SLOWEND=0",
  "process-lapse-sweep": "NC=3 SHARE=1 BOUND=1 B_LAPSE=1 B_SWEEP=2 SYNC=1 SLOWEND=0",
  "process-flush": "NC=3 SHARE=1 B_FLUSH=1 B_LOSE=1 SYNC=1 SLOWEND=0",
  "process-queue-lost": "NC=3 SHARE=1 B_QLOST=1 B_LOSE=1 SYNC=1 SLOWEND=0",
  "live-search-crash": "--live NC=3 BOUND=1 B_CRASH=1 SYNC=1 SLOWEND=0",
  "live-lost-message": "--live NC=3 SHARE=1 STRICT=1 ACTS=0 B_LOSE=1 SYNC=1 SLOWEND=0",
  "live-queue-lost": "--live NC=3 SHARE=1 STRICT=1 ACTS=0 B_QLOST=1 SYNC=1 SLOWEND=0",
  "live-flush": "--live NC=3 SHARE=1 ACTS=0 B_FLUSH=1 SYNC=1 SLOWEND=0",
};

/** Marks a search for clients that wait forever. */
const LIVE = "--live";

const COUNTEREXAMPLES = new URL("./counterexamples.txt", import.meta.url);

/** The standard runs: first the faults, then one run per omitted rule, read from `counterexamples.txt`. */
export function configurations(): Configuration[] {
  const faults = Object.entries(FAULTS).map(([name, definitions]) => (
    configuration(name, definitions.split(" "), false)
  ));
  return [...faults, ...leftOut(readFileSync(COUNTEREXAMPLES, "utf8"))];
}

/** Reads configurations from a text of counterexamples: lines such as `== NAME -DTOMB=0 -DB_CUT=1`. */
export function leftOut(text: string): Configuration[] {
  return [...text.matchAll(/^== (\S+) (.+)$/gm)].map(([, name = "", flags = ""]) => (
    configuration(name, flags.split(" ").map((flag) => flag.replace(/^-D/, "")), true)
  ));
}

function configuration(name: string, words: string[], mustFail: boolean): Configuration {
  const definitions = words.filter((word) => word !== LIVE);
  return { name, definitions, isLiveness: words.includes(LIVE), mustFail };
}
