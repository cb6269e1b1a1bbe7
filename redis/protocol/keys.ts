/**
 * The keys of a lock, all in one Cluster slot, and the channels of inboxes. Names that two versions
 * of the wire format must not share contain the version.
 *
 * @module
 * @see {@link https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags}
 */

/** The prefix of all keys and channels except the lock keys. */
const AUX_PREFIX = "holdfast:";
/** The prefix of the queue and its messages, whose format may differ between versions. */
const VERSION_PREFIX = `${AUX_PREFIX}1:`;
/** The prefix of the channels of inboxes; the id of the inbox follows. */
export const INBOX_CHANNEL_PREFIX: string = `${VERSION_PREFIX}inbox:`;
/** How many slots a cluster has. */
const SLOTS = 16_384;

/** The smallest number that each slot is known to have: a search for all slots takes milliseconds. */
const tags = new Map<number, string>();
let nextCandidate = 0;

/** The keys of one lock. */
export interface LockKeys {
  /** The lock itself: a string, the owner value of its holder. */
  readonly lock: string;
  /** A sorted set: the owner values of waiters, by ticket. */
  readonly queue: string;
  /** A hash: the records of waiters, their inboxes, the last ticket, tombstones. */
  readonly waiters: string;
  /** A string: the last fencing token. All versions of this library share it. */
  readonly token: string;
}

/**
 * Derives the keys of a lock.
 *
 * @param keyPrefix The prefix of the lock's key.
 * @param name The name of the lock.
 * @throws {RangeError} If the lock's key would begin with `holdfast:`, as our other keys do.
 */
export function lockKeys(keyPrefix: string, name: string): LockKeys {
  const lock = keyPrefix + name;
  if (lock.startsWith(AUX_PREFIX)) {
    throw new RangeError(
      `Cannot use a lock key that begins with "${AUX_PREFIX}": choose another 'keyPrefix' or name`,
    );
  }
  const tag = `{${slotTag(lock)}}`;
  return {
    lock,
    queue: `${VERSION_PREFIX}${tag}:queue:${lock}`,
    waiters: `${VERSION_PREFIX}${tag}:waiters:${lock}`,
    token: `${AUX_PREFIX}${tag}:token:${lock}`,
  };
}

/** Finds a hash tag that puts other keys into the slot of `key`. */
export function slotTag(key: string): string {
  const tag = hashTag(key);
  if (tag !== null) return tag;
  if (!key.includes("}")) return key;
  // A key with a brace in it cannot be a tag itself: search a number in the same slot.
  const slot = crc16(key) % SLOTS;
  while (!tags.has(slot)) {
    const candidate = String(nextCandidate++);
    const found = crc16(candidate) % SLOTS;
    if (!tags.has(found)) tags.set(found, candidate);
  }
  return tags.get(slot)!;
}

/** The Cluster slot of a key. */
export function slotOf(key: string): number {
  return crc16(hashTag(key) ?? key) % SLOTS;
}

/** The text between the first `{` and the first `}` after it; `null` if there is none. */
function hashTag(key: string): string | null {
  const start = key.indexOf("{");
  if (start === -1) return null;
  const end = key.indexOf("}", start + 1);
  return end <= start + 1 ? null : key.slice(start + 1, end);
}

/** CRC16-CCITT (XMODEM), which the Cluster specification prescribes. */
function crc16(text: string): number {
  let crc = 0;
  for (const byte of new TextEncoder().encode(text)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
    crc &= 0xffff;
  }
  return crc;
}
