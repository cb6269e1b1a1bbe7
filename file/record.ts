/**
 * The format of a lock file: a header of fixed width, which one write replaces, then the lock's name.
 * Reading and writing the file is in `locked_file.ts`.
 *
 * @module
 */

/** The header of a lock file. */
export interface Record {
  /** The last fencing token that was granted. */
  readonly token: bigint;
  /** Whether the lock was granted and not released. A holder that dies leaves `true` behind. */
  readonly held: boolean;
  /**
   * Whether another process waits. Its polls set this mark; the grant that begins a new streak
   * clears it.
   */
  readonly wanted: boolean;
  /** How many grants in a row went to {@linkcode Record.lockerId}. */
  readonly streak: number;
  /** Eight hex digits that identify the instance that locked the file last. */
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

/** Offset of the byte that is `h` if the lock is held, else `-`. */
export const HELD_OFFSET = 21;
/** Offset of the byte that is `w` if another process waits, else `-`. */
export const WANTED_OFFSET = 23;
/** Width of the header in bytes: the fields, a label of up to 100 escaped code units, a line break. */
export const RECORD_BYTES = 40 + 2 + 100 * 6 + 1;

const FIELDS = /^(\d{20}) ([h-]) ([w-]) (\d{2}) ([0-9a-f]{8}) ("[^\n]*")\s*$/;
const MARK = { held: "h", wanted: "w", not: "-" } as const;

/** The bytes that set and clear a mark of a file. */
export const MARKS = {
  wanted: new TextEncoder().encode(MARK.wanted),
  not: new TextEncoder().encode(MARK.not),
} as const;

/** Writes text as a JSON string in ASCII, so that its width in bytes is its length. */
function ascii(text: string): string {
  return JSON.stringify(text).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Writes a header, and the lock's name behind it for a file that is new. */
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

/**
 * Reads a header. A damaged one counts as empty: tokens still grow, since they are at least the wall
 * clock.
 */
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
