/**
 * The format of a lock file: a fixed-width header that one write replaces, then the lock's name.
 *
 * @module
 */

/** The header of a lock file. */
export interface Record {
  /** The last fencing token that was granted. */
  readonly token: bigint;
  /** Whether it was granted and not released. A holder that died leaves `true` behind. */
  readonly held: boolean;
  /** Whether another process waits: its polls set this mark, the next grant clears it. */
  readonly wanted: boolean;
  /** How many grants in a row went to {@linkcode Record.lockerId}. */
  readonly streak: number;
  /** The instance that locked the file last: eight hex digits. */
  readonly lockerId: string;
  /** The label of the last holder. */
  readonly label: string;
}

/** The record of an empty file. */
export const EMPTY_RECORD: Record = {
  token: 0n,
  held: false,
  wanted: false,
  streak: 0,
  lockerId: "",
  label: "",
};

/** Offset of the byte that is `h` (held) or `-`. */
export const HELD_OFFSET = 21;
/** Offset of the byte that is `w` (wanted) or `-`. */
export const WANTED_OFFSET = 23;
/** Width of the header in bytes: the fields, and a label of up to 100 escaped code units. */
export const RECORD_BYTES = 40 + 2 + 100 * 6 + 1;

const FIELDS = /^(\d{20}) ([h-]) ([w-]) (\d{2}) ([0-9a-f]{8}) ("[^\n]*")\s*$/;
const MARK = { held: "h", wanted: "w", not: "-" } as const;

/** The bytes of a mark. */
export function markBytes(mark: keyof typeof MARK): Uint8Array {
  return new TextEncoder().encode(MARK[mark]);
}

/** Text as ASCII, so that its width in bytes is known. */
function ascii(text: string): string {
  return JSON.stringify(text).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** A header; with the name for a file that has none yet. */
export function encodeRecord(record: Record, name?: string): Uint8Array {
  const fields = [
    record.token.toString().padStart(20, "0"),
    record.held ? MARK.held : MARK.not,
    record.wanted ? MARK.wanted : MARK.not,
    Math.min(record.streak, 99).toString().padStart(2, "0"),
    record.lockerId,
    ascii(record.label),
  ];
  const header = fields.join(" ").padEnd(RECORD_BYTES - 1) + "\n";
  return new TextEncoder().encode(name === undefined ? header : `${header}${ascii(name)}\n`);
}

/** Reads a header. A damaged header counts as empty: the wall clock keeps tokens growing. */
export function decodeRecord(bytes: Uint8Array): Record {
  const fields = FIELDS.exec(new TextDecoder().decode(bytes.subarray(0, RECORD_BYTES)));
  if (fields === null) return EMPTY_RECORD;
  const [, token, held, wanted, streak, lockerId, label] = fields;
  return {
    token: BigInt(token!),
    held: held === MARK.held,
    wanted: wanted === MARK.wanted,
    streak: Number(streak),
    lockerId: lockerId!,
    label: parseLabel(label!),
  };
}

function parseLabel(json: string): string {
  try {
    return String(JSON.parse(json));
  } catch {
    return "";
  }
}

/** The token of the next grant. It grows even if the file was removed. */
export function nextToken(previous: bigint, wallUs: bigint): bigint {
  return wallUs > previous ? wallUs : previous + 1n;
}
