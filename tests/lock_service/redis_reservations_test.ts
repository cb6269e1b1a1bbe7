/** The store of reservations on Redis: one step at a time, with repeated and late commands. */
import { assert, assertEquals } from "@std/assert";
import { redisReservations, type ReservedPlace } from "../../lock_service/mod.ts";
import * as scripts from "../../lock_service/scripts.ts";
import * as redisScripts from "../../redis/protocol/scripts.ts";
import { commandRights } from "../../testing/redis/acl_rule.ts";
import { slotOf } from "../../redis/protocol/keys.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { scaled } from "../../testing/time.ts";

const LIFE_MS = 60_000;
/** The life of reservations whose end a test waits for. */
const ENDING_LIFE_MS = scaled(50);
/** How many ended reservations a call removes at most. */
const SWEPT_AT_ONCE = 64;

/** Waits until the clock of Redis has gone on by this time: it ends reservations. */
async function untilLater({ command }: RedisServer, laterMs: number): Promise<void> {
  const nowMs = async () => {
    const [seconds, micros] = await command("TIME") as [string, string];
    return Number(seconds) * 1_000 + Number(micros) / 1_000;
  };
  const untilMs = await nowMs() + laterMs;
  await waitUntil("the clock of Redis has gone on", async () => await nowMs() > untilMs);
}

/** A store with a limit of one, and shorthands for its calls. */
async function open(keyPrefix = "", limit = 1, name: "node-redis" | "ioredis" = "node-redis") {
  await using stack = new AsyncDisposableStack();
  const redis = stack.use(await startRedis());
  const { client, close } = await openRedisClient(name, redis.url);
  stack.defer(close);
  const store = redisReservations(client, { keyPrefix });
  const place = (subject: string, nonce: string, principal = "alice"): ReservedPlace => {
    return { principal, resource: "leases", subject, nonce };
  };
  const reserve = async (
    subject: string,
    nonce: string,
    state: "open" | "settled" = "open",
    lifeMs = LIFE_MS,
  ) => (await store.reserve(place(subject, nonce), state, lifeMs, limit)).state;
  const owned = stack.move();
  return { redis, store, place, reserve, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

for (const name of ["node-redis", "ioredis"] as const) {
  Deno.test(`redisReservations() with ${name} keeps a reservation until each of its requests has given it back`, async () => {
    await using place = await open("", 1, name);
    const { store, reserve } = place;
    assertEquals(await reserve("a", "1"), "reserved");
    assertEquals(await reserve("a", "2"), "reserved", "the same subject counts once");
    assertEquals(await reserve("b", "3"), "full");
    await store.giveBack(place.place("b", "3")); // of a request that got nothing
    await store.giveBack(place.place("a", "2"));
    await store.giveBack(place.place("a", "2")); // executed twice
    assertEquals(await reserve("b", "3"), "full", "another request still needs it");
    assertEquals(await reserve("a", "1", "settled"), "reserved");
    assertEquals(await store.settledNonce(place.place("a", "")), "1");
    await store.giveBack(place.place("a", "1"));
    assertEquals(await store.settledNonce(place.place("a", "")), null);
    assertEquals(await reserve("b", "3"), "reserved");
  });
}

Deno.test("redisReservations() keeps a request in progress when a settled one of its lease is given back", async () => {
  await using place = await open();
  const { store, reserve } = place;
  for (const nonce of ["1", "2", "3"]) await reserve("a", nonce);
  await reserve("a", "1", "settled");
  await reserve("a", "2", "settled"); // replaces the first one
  assertEquals(await store.settledNonce(place.place("a", "")), "2");
  await store.giveBack(place.place("a", "2"));
  assertEquals(await reserve("b", "4"), "full", "the third request may get its lease");
  await store.giveBack(place.place("a", "3"));
  assertEquals(await reserve("b", "4"), "reserved");
  // A late copy of the first command must not free what others have now.
  await store.giveBack(place.place("a", "2"));
  assertEquals(await reserve("a", "5"), "full");
});

Deno.test("redisReservations() ends a reservation by its expiry, and a renewal never shortens it", async () => {
  await using place = await open();
  const { redis, reserve } = place;
  await reserve("a", "1", "open", ENDING_LIFE_MS);
  await untilLater(redis, ENDING_LIFE_MS + 1);
  assertEquals(await reserve("b", "2", "settled"), "reserved");
  await reserve("b", "3", "settled", ENDING_LIFE_MS);
  await reserve("b", "2", "open", ENDING_LIFE_MS); // a late copy
  await untilLater(redis, ENDING_LIFE_MS + 1);
  assertEquals(await reserve("a", "1"), "full");
  const result = await place.store.reserve(place.place("a", "1"), "open", 1, 1);
  assert(result.state === "full" && result.freeAfterMs > LIFE_MS - 30_000);
  assert(result.freeAfterMs <= LIFE_MS);
  const keys = await redis.command("KEYS", "holdfast:1:limits:*") as string[];
  assertEquals(keys.length, 2);
  for (const key of keys) assert(Number(await redis.command("PTTL", key)) > 0, key);
});

Deno.test("redisReservations() removes ended reservations in bounded steps, and does not count them", async () => {
  await using place = await open("", 301);
  const { redis, reserve } = place;
  await Promise.all(
    Array.from({ length: 300 }, (_, i) => reserve(`${i}`, "1", "open", ENDING_LIFE_MS)),
  );
  assertEquals(await reserve("last", "1"), "reserved");
  await untilLater(redis, ENDING_LIFE_MS + 1);
  const [key] = await redis.command("KEYS", "holdfast:1:limits:*:reservations") as [string];
  const count = async () => Number(await redis.command("ZCARD", key));
  const counts = [await count()];
  for (let i = 0; i < 7; i++) {
    assertEquals(await reserve("a", "1"), "reserved");
    counts.push(await count());
    assert(counts.at(-2)! - counts.at(-1)! <= SWEPT_AT_ONCE, `a call removed too much: ${counts}`);
  }
  assertEquals(counts.at(-1), 2);
  const marks = await redis.command("HLEN", key.replace("reservations", "marks"));
  assertEquals(marks, counts.at(-1));
});

Deno.test("redisReservations() limits how many requests share a reservation at once", async () => {
  await using place = await open();
  const states = await Promise.all(
    Array.from({ length: 40 }, (_, i) => place.reserve("a", `${i}`)),
  );
  assertEquals(states.filter((state) => state === "reserved").length, 32);
  assertEquals(await place.reserve("a", "0", "settled"), "reserved");
});

Deno.test("redisReservations() keeps principals, prefixes and resources apart, each in one slot", async () => {
  for (const prefix of ["", "{x}:", "a"]) {
    await using place = await open(prefix);
    const { redis, store } = place;
    for (const principal of ["a", "{a}", "a:b", "ü}", "*"]) {
      for (const resource of ["leases", "waiters"] as const) {
        const given = { ...place.place("s", "n", principal), resource };
        assertEquals((await store.reserve(given, "open", LIFE_MS, 1)).state, "reserved");
        assertEquals((await store.reserve({ ...given, subject: "t" }, "open", 1, 1)).state, "full");
      }
    }
    const keys = await redis.command("KEYS", "holdfast:1:limits:*") as string[];
    assertEquals(keys.length, 5 * 2 * 2);
    for (const key of keys.filter((key) => key.endsWith(":marks"))) {
      assertEquals(slotOf(key), slotOf(key.replace(/marks$/, "reservations")));
    }
  }
});

Deno.test("docs/lock-service.md names the rights that the scripts need besides those of locks", async () => {
  const ofLocks = commandRights(Object.values(redisScripts));
  const more = commandRights(Object.values(scripts)).filter((right) => !ofLocks.includes(right));
  const docs = await Deno.readTextFile(new URL("../../docs/lock-service.md", import.meta.url));
  const [, named] = /more rights than for locks alone: `([^`]+)`/.exec(docs)!;
  assertEquals(named!.split(" "), more.map((right) => `+${right}`));
});
