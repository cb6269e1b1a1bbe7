/**
 * The standard runs of the model: faults that the protocol must survive, and rules that it needs.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import type { Model } from "./spin.ts";

/** The model with certain switches and budgets of faults. */
export interface Configuration {
  readonly name: string;
  readonly model: Model;
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
  "queue-lost-order": "NC=3 B_QLOST=1 B_LOSE=1 SYNC=1 SLOWEND=0",
  "live-search-crash": "--live NC=3 BOUND=1 B_CRASH=1 SYNC=1 SLOWEND=0",
  "live-lost-message": "--live NC=3 SHARE=1 STRICT=1 ACTS=0 B_LOSE=1 SYNC=1 SLOWEND=0",
  "live-queue-lost": "--live NC=3 SHARE=1 STRICT=1 ACTS=0 B_QLOST=1 SYNC=1 SLOWEND=0",
  "live-flush": "--live NC=3 SHARE=1 ACTS=0 B_FLUSH=1 SYNC=1 SLOWEND=0",
};

/** The faults of shared holders. The clients are two readers and two writers, if no limits are given. */
const MODES: Readonly<Record<string, string>> = {
  "modes-no-fault": "BATCH=2",
  "modes-crash": "B_CRASH=1",
  "modes-frozen": "B_EXP=1",
  "modes-duplicate": "B_DUP=1",
  "modes-lost-message": "B_LOSE=1",
  "modes-abort": "B_ABORT=1",
  "modes-limits-queue-lost": "L0=2 L1=2 L2=2 L3=0 B_QLOST=1",
  "modes-limits-hash-lost": "L0=1 L1=1 B_HLOST=1",
  "modes-foreign-del": "B_DEL=1",
};

/** Each rule of shared holders, left out. */
const MODES_LEFT_OUT: Readonly<Record<string, string>> = {
  "modes-shrinking-marker": "GROW=0 B_EXP=1",
  "modes-any-generation": "GENERATION=0 B_DEL=1",
  "modes-lost-holders-uncounted": "LOST=0 L0=1 L1=1 B_QLOST=1",
  "modes-join-lost-holders": "JOINLOST=1 L0=2 L1=2 L2=2 L3=0 B_QLOST=1",
  "modes-field-is-enough": "MEMBER=0 B_QLOST=1",
  "modes-each-holder-frees": "LAST=0",
  "modes-evicted-is-free": "EVICTED=0 B_QLOST=1",
  "modes-readers-overtake": "BARGE=1",
  "modes-no-tombstone": "TOMB=0 B_DUP=1",
  "modes-batch-is-left": "GOON=0 L2=0",
};

/** Marks a search for clients that wait forever. */
const LIVE = "--live";

const COUNTEREXAMPLES = new URL("./counterexamples.txt", import.meta.url);

/**
 * The standard runs: first the faults, then one run per omitted rule, read from `counterexamples.txt`; the same for
 * shared holders.
 */
export function configurations(): Configuration[] {
  const read = (table: Readonly<Record<string, string>>, mustFail: boolean, model: Model) =>
    Object.entries(table).map(([name, words]) =>
      configuration(name, words.split(" "), mustFail, model)
    );
  return [
    ...read(FAULTS, false, "queue.pml"),
    ...leftOut(readFileSync(COUNTEREXAMPLES, "utf8")),
    ...read(MODES, false, "modes.pml"),
    ...read(MODES_LEFT_OUT, true, "modes.pml"),
  ];
}

/** Reads configurations from a text of counterexamples: lines such as `== NAME -DTOMB=0 -DB_CUT=1`. */
export function leftOut(text: string): Configuration[] {
  return [...text.matchAll(/^== (\S+) (.+)$/gm)].map(([, name = "", flags = ""]) => (
    configuration(name, flags.split(" ").map((flag) => flag.replace(/^-D/, "")), true)
  ));
}

function configuration(
  name: string,
  words: string[],
  mustFail: boolean,
  model: Model = "queue.pml",
): Configuration {
  const definitions = words.filter((word) => word !== LIVE);
  return { name, model, definitions, isLiveness: words.includes(LIVE), mustFail };
}
