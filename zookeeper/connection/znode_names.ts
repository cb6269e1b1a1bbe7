/**
 * Names and paths of znodes: how a lock's name is encoded, and which paths ZooKeeper accepts.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { badValue, describe } from "../../core/contract/options.ts";

/** Maximum length, in characters, of the znode name of a lock. Longer names are hashed. */
export const MAX_ZNODE_NAME_LENGTH = 1_000;

/**
 * The characters that are encoded in a znode name: "/", "%" and those that ZooKeeper refuses: control characters,
 * U+D800 to U+F8FF (in Java's UTF-16 that includes everything beyond U+FFFF) and U+FFF0 to U+FFFF.
 */
const ENCODED = /[%/\p{Cc}\u{E000}-\u{F8FF}\u{FFF0}-\u{10FFFF}]/gu;

/**
 * Returns the name of a lock's znode. Most lock names stay as they are, so that other tools find the lock `orders:42`
 * at `<rootPath>/orders:42`. "/", "%" and each character that ZooKeeper refuses become the "%XX" of their UTF-8
 * bytes; "." and ".." become "%2E" and "%2E%2E". A result longer than {@linkcode MAX_ZNODE_NAME_LENGTH} becomes
 * "%sha256-" and the hash of the name. Two lock names never share a znode name, unless SHA-256 collides: no other
 * lock's znode name contains "%s".
 */
export function znodeName(name: string): string {
  if (name === "." || name === "..") return name.replaceAll(".", "%2E");
  const encoded = name.replace(ENCODED, encodeURIComponent);
  if (encoded.length <= MAX_ZNODE_NAME_LENGTH) return encoded;
  return `%sha256-${createHash("sha256").update(name).digest("hex")}`;
}

/**
 * Returns the name of the lock that has a znode; `null` for that of a session. The name of a hashed one stays
 * as it is, and so does one that this package did not make.
 */
export function lockNameOf(znode: string): string | null {
  if (znode.startsWith(SESSION_PREFIX)) return null;
  try {
    return decodeURIComponent(znode);
  } catch {
    return znode;
  }
}

const SESSION_PREFIX = "%session-";

/**
 * The name of the znode that a session's heartbeat writes to. No lock has it: in a lock's znode name, two hexadecimal
 * digits or "sha256-" follow each "%".
 */
export function sessionZnodeName(guid: string): string {
  return `${SESSION_PREFIX}${guid}`;
}

/** Throws unless it is a znode's absolute path below the root, in characters that ZooKeeper accepts. */
export function checkPath(option: string, path: unknown): asserts path is string {
  if (typeof path !== "string") {
    throw new TypeError(badValue(option, "a string", describe(path)));
  }
  const [first, ...names] = path.split("/");
  const isAccepted = first === "" && names.length > 0 && path.isWellFormed() &&
    names.every(isZnodeName);
  if (!isAccepted) {
    throw new RangeError(badValue(option, 'a path such as "/a/b"', JSON.stringify(path)));
  }
}

function isZnodeName(name: string): boolean {
  return name !== "" && name !== "." && name !== ".." &&
    name.replaceAll("%", "").search(ENCODED) === -1;
}
