/**
 * What contenders have written into one file, in the order in which they did it: an append of a short
 * line is atomic.
 *
 * @module
 */

/** What a record tells. */
export interface Findings {
  /** How many critical sections each kind entered. */
  readonly sections: ReadonlyMap<string, number>;
  /** How many were entered while another one was not left. */
  readonly overlaps: number;
  /** How many were entered after one with a higher sequence number. */
  readonly inversions: number;
  /** How often the lock went from a kind to another one, by `from→to`. */
  readonly handoffs: ReadonlyMap<string, number>;
}

/** Reads a record. */
export function readRecord(text: string): Findings {
  const sections = new Map<string, number>();
  const handoffs = new Map<string, number>();
  const inside = new Set<string>();
  let [overlaps, inversions, highest] = [0, 0, -1];
  let last: string | undefined;
  // A line that is just being written has no end.
  for (const line of text.split("\n").slice(0, -1)) {
    const [event, kind, digits] = line.split(" ") as [string, string, string];
    if (event === "leave") {
      inside.delete(digits);
      continue;
    }
    if (inside.size > 0) overlaps++;
    inside.add(digits);
    if (Number(digits) <= highest) inversions++;
    highest = Math.max(highest, Number(digits));
    count(sections, kind);
    if (last !== undefined && last !== kind) count(handoffs, `${last}→${kind}`);
    last = kind;
  }
  return { sections, overlaps, inversions, handoffs };
}

function count(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
