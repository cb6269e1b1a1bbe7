import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import {
  checkPath,
  lockNameOf,
  MAX_ZNODE_NAME_LENGTH,
  sessionZnodeName,
  znodeName,
} from "../../../zookeeper/connection/znode_names.ts";
import { randomFrom } from "../../../testing/processes/random.ts";

Deno.test("znodeName() keeps a name that needs no encoding", () => {
  for (
    const name of ["orders:42", "a b", "日本語", "é", "zookeeper", "_c_x-lock-0000000001", "..."]
  ) {
    assertEquals(znodeName(name), name);
  }
});

Deno.test("znodeName() encodes the characters that ZooKeeper refuses", () => {
  assertEquals(znodeName("a/b"), "a%2Fb");
  assertEquals(znodeName("100%"), "100%25");
  assertEquals(znodeName("."), "%2E");
  assertEquals(znodeName(".."), "%2E%2E");
  assertEquals(znodeName("a\0\n\x7f\x85"), "a%00%0A%7F%C2%85");
  assertEquals(znodeName("😀"), "%F0%9F%98%80");
  assertEquals(znodeName("\ue000\uf8ff\ufff0\uffff"), "%EE%80%80%EF%A3%BF%EF%BF%B0%EF%BF%BF");
});

Deno.test("znodeName() hashes a name that is too long when encoded", () => {
  const long = "/".repeat(1_000);
  assertMatch(znodeName(long), /^%sha256-[0-9a-f]{64}$/);
  assert(znodeName(long) !== znodeName("/".repeat(999)));
  const longest = "x".repeat(MAX_ZNODE_NAME_LENGTH);
  assertEquals(znodeName(longest), longest);
});

/** As ZooKeeper's PathUtils.validatePath() does, by UTF-16 code units. */
function isAccepted(name: string): boolean {
  if (name === "" || name === "." || name === ".." || name.includes("/")) return false;
  for (let i = 0; i < name.length; i++) {
    const unit = name.charCodeAt(i);
    if (unit <= 0x1f || (unit >= 0x7f && unit <= 0x9f) || unit >= 0xfff0) return false;
    if (unit >= 0xd800 && unit <= 0xf8ff) return false;
  }
  return true;
}

Deno.test("znodeName() returns an accepted, distinct name for every code point", () => {
  const seen = new Set<string>();
  for (let code = 0; code <= 0x10ffff; code++) {
    if (code >= 0xd800 && code <= 0xdfff) continue;
    const encoded = znodeName(String.fromCodePoint(code));
    if (!isAccepted(encoded)) throw new Error(`U+${code.toString(16)} gives ${encoded}`);
    if (seen.has(encoded)) throw new Error(`${encoded} comes twice`);
    seen.add(encoded);
  }
});

Deno.test("znodeName() returns different znode names for different locks", () => {
  const random = randomFrom("names");
  const parts = [".", "/", "%", "2", "F", "E", "5", "%2E", "%2F", "a", "\0", "😀", "%sha256-", "s"];
  const names = new Set<string>();
  for (let i = 0; i < 50_000; i++) {
    const length = 1 + Math.floor(random() * 5);
    names.add(
      Array.from({ length }, () => parts[Math.floor(random() * parts.length)]).join(""),
    );
  }
  const encoded = new Set(Array.from(names, znodeName));
  assertEquals(encoded.size, names.size);
  for (const name of encoded) assert(isAccepted(name));
});

Deno.test("znodeName() never returns the znode name of a session", () => {
  const guid = crypto.randomUUID();
  const name = sessionZnodeName(guid);
  assert(isAccepted(name));
  assertEquals(znodeName(name), `%25session-${guid}`);
});

Deno.test("checkPath() throws when the path is bad", () => {
  for (const good of ["/a", "/a/b.c", "/holdfast/locks", "/50%"]) checkPath("it", good);
  assertThrows(() => checkPath("it", 1), TypeError);
  for (const bad of ["", "/", "a", "/a/", "//a", "/a/./b", "/..", "/\0", "/\ud800", "/😀"]) {
    assertThrows(() => checkPath("it", bad), RangeError);
  }
});

Deno.test("lockNameOf() returns the name that was encoded, keeps hashes, and knows sessions", () => {
  for (const name of ["orders:42", "a/b", "100%", ".", "..", "a\0\n", "😀", "\uFFFF", "%41"]) {
    assertEquals(lockNameOf(znodeName(name)), name);
  }
  const hashed = znodeName("x".repeat(999) + "//");
  assertEquals(hashed.startsWith("%sha256-"), true);
  assertEquals(lockNameOf(hashed), hashed);
  assertEquals(lockNameOf("100%"), "100%"); // of another tool
  assertEquals(lockNameOf(sessionZnodeName("g")), null);
});
