/**
 * The keys of a lock, all in one Cluster slot, the owner values in them, and the channels of inboxes. Names that two
 * versions of the wire format must not share contain the version.
 *
 * @module
 * @see {@link https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags}
 */
import { labelOf } from "../../core/contract/options.ts";

/** The prefix of all keys and channels except the lock keys. */
const AUX_PREFIX = "holdfast:";
/** The prefix of the queue and its messages, whose format may differ between versions. */
const VERSION_PREFIX = `${AUX_PREFIX}1:`;
/** The prefix of the channels of inboxes; the id of the inbox follows. */
export const INBOX_CHANNEL_PREFIX: string = `${VERSION_PREFIX}inbox:`;
const SLOTS = 16_384;

/** The smallest number that each slot is known to have: a search for all slots takes milliseconds. */
const tags = new Map<number, string>();
let nextCandidate = 0;

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

/** Derives the keys of a lock. Throws a `RangeError` for a lock key that begins as our other keys do. */
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

/** The pattern of `SCAN` for the locks whose names begin with a prefix. */
export function lockPattern(keyPrefix: string, prefix: string): string {
  return `${(keyPrefix + prefix).replace(/[*?[\]\\^-]/g, "\\$&")}*`;
}

/** The name of the lock that has a key; `null` for a key that no lock has. */
export function nameOfKey(keyPrefix: string, key: string): string | null {
  return key.startsWith(AUX_PREFIX) || key === keyPrefix ? null : key.slice(keyPrefix.length);
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

export function slotOf(key: string): number {
  return crc16(hashTag(key) ?? key) % SLOTS;
}

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

export const NONCE_DIGITS = 16;

const VALUE = new RegExp(`^(.*)#[0-9a-f]{${NONCE_DIGITS}}$`, "s");

/** Makes a random nonce. The id of an inbox is made like that, too. */
export function makeNonce(): string {
  return crypto.randomUUID().replaceAll("-", "").slice(0, NONCE_DIGITS);
}

/**
 * The owner value of one call. Renewals and releases compare it, so that they never touch another lease.
 *
 * @param nonce The inbox of a call that has made its owner id: the nonce names the inbox that a thief notifies. Left
 * out for an id that the caller chose: each call has its own, by which an earlier lease of the id is recognized.
 */
export function ownerValue(ownerId: string, nonce: string = makeNonce()): string {
  return `${ownerId}#${nonce}`;
}

export function isOurs(value: string): boolean {
  return VALUE.test(value);
}

export function hasSameOwnerId(value: string, other: string): boolean {
  return value.slice(0, -NONCE_DIGITS) === other.slice(0, -NONCE_DIGITS);
}

/** The label in a value, if this library wrote it and it has one. */
export function labelOfValue(value: string): string | undefined {
  const ownerId = VALUE.exec(value)?.[1];
  return ownerId === undefined ? undefined : labelOf(ownerId);
}
