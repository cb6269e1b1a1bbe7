/**
 * From lock names to znodes, and from connect strings to servers. Pure but for the hash.
 *
 * @module
 */
import { createHash } from "node:crypto";

/** Longest name of a znode that stands for a lock, in characters; longer ones are hashed. */
export const MAX_ZNODE_NAME_LENGTH = 1_000;

/** Default port of a ZooKeeper server. */
const DEFAULT_PORT = 2181;

/**
 * What a znode's name cannot hold, and "%". ZooKeeper refuses control characters, U+D800 to U+F8FF
 * (so, in Java's UTF-16, everything beyond U+FFFF, too) and U+FFF0 to U+FFFF.
 */
const REFUSED = /[%/\p{Cc}\u{E000}-\u{F8FF}\u{FFF0}-\u{10FFFF}]/gu;

/** One server of an ensemble. */
export interface ServerAddress {
  readonly host: string;
  readonly port: number;
}

/** What a connect string says. */
export interface ConnectString {
  readonly servers: readonly ServerAddress[];
  /** The path that all others are below; `""` for the root. */
  readonly chroot: string;
}

/**
 * The name of the znode of a lock. Most names are their own: other tools find `orders:42` at
 * `<rootPath>/orders:42`. Characters that ZooKeeper refuses, "/" and "%" become the "%XX" of their
 * UTF-8 bytes, "." and ".." become "%2E" and "%2E%2E", and what gets longer than
 * {@linkcode MAX_ZNODE_NAME_LENGTH} becomes "%sha256-" and its hash. No two lock names share a znode
 * name (but for a collision of SHA-256), for "%s" is in no other one.
 *
 * @param name Any well-formed Unicode text of 1 to 1,000 UTF-16 code units.
 * @returns The name of the znode.
 */
export function znodeName(name: string): string {
  if (name === "." || name === "..") return name.replaceAll(".", "%2E");
  const encoded = name.replace(REFUSED, encodeURIComponent);
  if (encoded.length <= MAX_ZNODE_NAME_LENGTH) return encoded;
  return `%sha256-${createHash("sha256").update(name).digest("hex")}`;
}

/**
 * The name of the znode that a session writes to in order to prove itself. It can be no lock's: every
 * "%" in those is followed by two hexadecimal digits or by "sha256-".
 *
 * @param guid A random UUID.
 * @returns The name of the znode, below the root path.
 */
export function sessionZnodeName(guid: string): string {
  return `%session-${guid}`;
}

/**
 * Checks a path of znodes.
 *
 * @param option What the path is, for the message.
 * @param path The path.
 * @throws {TypeError} If it is not a string.
 * @throws {RangeError} If it is not absolute, is the root, or holds what ZooKeeper refuses.
 */
export function checkPath(option: string, path: unknown): asserts path is string {
  if (typeof path !== "string") {
    throw new TypeError(`Cannot use ${option} as it must be a string: it is a ${typeof path}`);
  }
  const [first, ...names] = path.split("/");
  const isFine = first === "" && names.length > 0 && path.isWellFormed() &&
    names.every(isZnodeName);
  if (!isFine) {
    throw new RangeError(
      `Cannot use ${option} as it must be a path such as "/a/b": it is ${JSON.stringify(path)}`,
    );
  }
}

function isZnodeName(name: string): boolean {
  return name !== "" && name !== "." && name !== ".." &&
    name.replaceAll("%", "").search(REFUSED) === -1;
}

/**
 * Reads a connect string: `host1:2181,host2:2181/chroot`. A port may be left out, an IPv6 address
 * stands in brackets.
 *
 * @param text The connect string.
 * @returns Its servers in the given order, and its chroot.
 * @throws {TypeError} If it is not a string.
 * @throws {RangeError} If it names no server, a bad port or a bad chroot.
 */
export function parseConnectString(text: unknown): ConnectString {
  if (typeof text !== "string") {
    throw new TypeError(
      `Cannot use the connect string as it must be a string: it is a ${typeof text}`,
    );
  }
  const slash = text.indexOf("/");
  const hosts = slash === -1 ? text : text.slice(0, slash);
  const chroot = slash === -1 ? "" : text.slice(slash).replace(/\/$/, "");
  if (chroot !== "") checkPath("the chroot of the connect string", chroot);
  return { servers: hosts.split(",").map(parseServer), chroot };
}

function parseServer(text: string): ServerAddress {
  const [, literal, name, digits] = /^(?:\[([\da-fA-F:.]+)\]|([^\s:[\]]+))(?::(\d{1,5}))?$/
    .exec(text.trim()) ?? [];
  const host = literal ?? name;
  const port = digits === undefined ? DEFAULT_PORT : Number(digits);
  if (host === undefined || port < 1 || port > 65_535) {
    throw new RangeError(
      'Cannot use the connect string as it must be like "host1:2181,host2:2181/chroot": ' +
        `${JSON.stringify(text)} is no server`,
    );
  }
  return { host, port };
}
