/**
 * Which keys a lock uses, all in one Cluster slot.
 *
 * @module
 * @see {@link https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags}
 */

/** What every auxiliary key starts with. */
const AUX_PREFIX = "holdfast:";
/** How many slots a cluster has. */
const SLOTS = 16_384;

/** The smallest number in each slot, as far as the search has come: it takes ms. */
const tags = new Map<number, string>();
let nextCandidate = 0;

/** The keys of one lock. */
export interface LockKeys {
  /** The lock itself: a string that holds its owner. */
  readonly lock: string;
  /** Those who wait, by ticket: a sorted set. */
  readonly waiting: string;
  /** Their details, the ticket counter and tombstones: a hash. */
  readonly details: string;
  /** The last fencing token. */
  readonly fence: string;
}

/**
 * Derives the keys of a lock.
 *
 * @throws {RangeError} If the lock's key would start like an auxiliary key.
 */
export function lockKeys(keyPrefix: string, name: string): LockKeys {
  const lock = keyPrefix + name;
  if (lock.startsWith(AUX_PREFIX)) {
    throw new RangeError(
      `Cannot use a key that begins with "${AUX_PREFIX}": choose another prefix`,
    );
  }
  const aux = (kind: string) => `${AUX_PREFIX}{${slotTag(lock)}}:${kind}:${lock}`;
  return { lock, waiting: aux("q"), details: aux("w"), fence: aux("f") };
}

/** A hash tag that puts a key into the slot of `key`. */
export function slotTag(key: string): string {
  const tag = hashTag(key);
  if (tag !== null) return tag;
  if (!key.includes("}")) return key;
  // No text with a brace in it can be a tag of its own: look for one that falls into the same slot.
  const slot = crc16(key) % SLOTS;
  while (!tags.has(slot)) {
    const candidate = String(nextCandidate++);
    const found = crc16(candidate) % SLOTS;
    if (!tags.has(found)) tags.set(found, candidate);
  }
  return tags.get(slot)!;
}

/** The slot of a key. */
export function slotOf(key: string): number {
  return crc16(hashTag(key) ?? key) % SLOTS;
}

/** What stands between the first `{` and the first `}` after it, unless that is nothing. */
function hashTag(key: string): string | null {
  const start = key.indexOf("{");
  if (start === -1) return null;
  const end = key.indexOf("}", start + 1);
  return end <= start + 1 ? null : key.slice(start + 1, end);
}

/** CRC16-CCITT (XMODEM), as the Cluster specification wants it. */
function crc16(text: string): number {
  let crc = 0;
  for (const byte of new TextEncoder().encode(text)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
    crc &= 0xffff;
  }
  return crc;
}
