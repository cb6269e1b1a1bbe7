import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  hasSameOwnerId,
  isOurs,
  lockKeys,
  lockPattern,
  nameOfKey,
  ownerValue,
  slotOf,
  slotTag,
} from "../../../redis/protocol/keys.ts";
import { startRedis } from "../../../testing/servers/redis.ts";

const KEYS = [
  "a",
  "lock:orders:42",
  "{user}:1",
  "a{b}c",
  "{}",
  "{}x",
  "x{}",
  "}",
  "}{",
  "}{a}",
  "a}b",
  "{a",
  "{{a}}",
  "a{}{b}",
  "lock:{a}{b}",
  "é{ü}日本",
  "日本}語",
  "x".repeat(1_000) + "}",
];

Deno.test("lockKeys() puts all keys of a lock into one slot, as the server computes it", async () => {
  await using server = await startRedis({ args: ["--cluster-enabled", "yes"] });
  for (const key of KEYS) {
    const { lock, ...aux } = lockKeys("", key);
    const slot = await server.command("CLUSTER", "KEYSLOT", lock);
    assertEquals(slotOf(lock), slot, lock.slice(0, 20));
    for (const other of Object.values(aux)) {
      assertEquals(await server.command("CLUSTER", "KEYSLOT", other), slot, other.slice(0, 40));
    }
  }
});

Deno.test("slotTag() returns the hash tag of the key, the key itself, or a number of the same slot", () => {
  assertEquals(slotTag("{user}:1"), "user");
  assertEquals(slotTag("plain"), "plain");
  assertEquals(slotTag("{a"), "{a");
  assert(/^\d+$/.test(slotTag("a}b")));
});

Deno.test("slotTag() finds the smallest number, whatever slots were searched before", () => {
  // The number is part of the keys: another process must find the same one.
  const smallest = (key: string) => {
    for (let i = 0;; i++) if (slotOf(String(i)) === slotOf(key)) return String(i);
  };
  let i = 0; // a key in the slot of "0"
  while (slotOf(`}${i}`) !== slotOf("0")) i++;
  for (const key of ["}", "{}", "a}b", "}", `}${i}`]) assertEquals(slotTag(key), smallest(key));
});

Deno.test("lockKeys() returns different keys for each lock", () => {
  const names = ["a", "b", "a:b", "token:a", "{a}", "{a}:token:{a}"];
  const tokens = names.map((name) => lockKeys("lock:", name).token);
  assertEquals(new Set(tokens).size, names.length);
});

Deno.test("lockKeys() throws when the lock key begins with holdfast:", () => {
  assertThrows(() => lockKeys("", "holdfast:{x}:token:x"), RangeError, "holdfast:");
  assertThrows(() => lockKeys("hold", "fast:x"), RangeError);
  lockKeys("lock:", "holdfast:x");
});

Deno.test("hasSameOwnerId(), isOurs(), nameOfKey() and lockPattern() read what the keys and values are made of", () => {
  const [a, b] = ["0", "f"].map((digit) => digit.repeat(16));
  assertEquals(hasSameOwnerId(ownerValue("job-7", a), ownerValue("job-7", b)), true);
  assertEquals(hasSameOwnerId(ownerValue("job-7", a), ownerValue("job-8", a)), false);
  assertEquals([ownerValue("job-7"), `job-7#${a}0`, "job-7"].map(isOurs), [true, false, false]);
  const names = ["lock:n", "lock:", "holdfast:1:{n}:queue:n"].map((key) => nameOfKey("lock:", key));
  assertEquals(names, ["n", null, null]);
  assertEquals(lockPattern("a*", "b?"), "a\\*b\\?*");
});
