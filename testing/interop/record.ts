/**
 * Reads the file to which all contenders append their events. Its lines are in the order of the events,
 * because appending a short line is atomic.
 *
 * @module
 */

/** The facts that a record shows. */
export interface Findings {
  /** How many critical sections each kind entered. */
  readonly sections: ReadonlyMap<string, number>;
  /** How many critical sections were entered before the previous holder left, unless both are shared. */
  readonly overlaps: number;
  /**
   * How many critical sections were entered after one with a higher sequence number. Shared ones that are granted
   * the lock together enter in any order.
   */
  readonly inversions: number;
  /** How often the lock passed from one kind to another, by `from→to`. */
  readonly handoffs: ReadonlyMap<string, number>;
}

/** Whether a kind holds the lock together with others. */
export function isShared(kind: string): boolean {
  return kind.endsWith("-shared");
}

/** Reads a record. */
export function readRecord(text: string): Findings {
  const sections = new Map<string, number>();
  const handoffs = new Map<string, number>();
  const inside = new Map<string, string>();
  let [overlaps, inversions, highest, highestExclusive] = [0, 0, -1, -1];
  let last: string | undefined;
  // The last piece is empty, or a line that is being written.
  for (const line of text.split("\n").slice(0, -1)) {
    const [event, kind, digits] = line.split(" ") as [string, string, string];
    if (event === "leave") {
      inside.delete(digits);
      continue;
    }
    const sequence = Number(digits);
    const mayJoin = isShared(kind) && [...inside.values()].every(isShared);
    if (inside.size > 0 && !mayJoin) overlaps++;
    inside.set(digits, kind);
    if (sequence <= (isShared(kind) ? highestExclusive : highest)) inversions++;
    highest = Math.max(highest, sequence);
    if (!isShared(kind)) highestExclusive = Math.max(highestExclusive, sequence);
    count(sections, kind);
    if (last !== undefined && last !== kind) count(handoffs, `${last}→${kind}`);
    last = kind;
  }
  return { sections, overlaps, inversions, handoffs };
}

function count(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
