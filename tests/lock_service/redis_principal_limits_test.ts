/** Limits per principal: never more leases than allowed, however requests race, repeat or crash. */
import { assert, assertEquals, assertGreater, assertRejects, assertThrows } from "@std/assert";
import Fastify from "fastify";
import { lockRoutes, type PrincipalLimits, redisReservations } from "../../lock_service/mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import {
  type Answer,
  call,
  openService,
  startService,
} from "../../testing/lock_service/lock_service.ts";
import { held, watch } from "../../testing/lock_service/held_leases.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS, ENDING_TTL_MS, LONG_TTL_MS } from "../../testing/time.ts";

const LIMIT = 5;
const PUTS = 200;
/** The longest time that a client may wait. */
const WAIT_MS = 30_000;

/** Two services on one Redis. */
async function openTwo(limits: { maxLeases?: number; maxWaiters?: number }) {
  await using stack = new AsyncDisposableStack();
  const redis = stack.use(await startRedis());
  const one = stack.use(await openService({ redisUrl: redis.url, limits }));
  const other = stack.use(await openService({ redisUrl: redis.url, limits }));
  const urls = [one.url, other.url] as const;
  const errors = () => [...one.errors, ...other.errors];
  const owned = stack.move();
  return { redis, urls, errors, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

function put(url: string, path: string, body: unknown = { ttlMs: LONG_TTL_MS }): Promise<Answer> {
  return call(url, "PUT", `/lock/${path}`, { body });
}

/** Repeats a PUT after 503, as the servers may take over the same lease from each other for long. */
async function putUntilKnown(url: string, path: string): Promise<Answer> {
  let answer: Answer | undefined;
  await waitUntil("the outcome is known", async () => {
    answer = await put(url, path);
    return answer.status !== 503;
  }, CONDITION_BOUND_MS);
  return answer!;
}

function assertTooMany({ status, headers, body }: Answer, what: "leases" | "waiters"): void {
  assertEquals([status, body.type], [429, `urn:holdfast:problem:too-many-${what}`]);
  assert(Number(headers.get("retry-after")) >= 1);
}

function statuses(answers: readonly Answer[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

Deno.test("lockRoutes() never grants a principal more than maxLeases when 200 PUTs race on two servers", async () => {
  await using place = await openTwo({ maxLeases: LIMIT });
  const { redis, urls } = place;
  await using watched = watch(redis, "alice");
  const answers = await Promise.all(
    Array.from({ length: PUTS }, (_, i) => put(urls[i % 2]!, `k${i}/id`)),
  );
  assertEquals(statuses(answers), { 200: LIMIT, 429: PUTS - LIMIT });
  answers.filter(({ status }) => status === 429).forEach((answer) =>
    assertTooMany(answer, "leases")
  );
  assertEquals(await held(redis, "alice"), LIMIT);
  assertGreater(watched.seen.looks, 0);
  assertEquals(watched.seen.most, LIMIT);
  assertEquals((await call(urls[0], "PUT", "/lock/other/id", { as: "bob" })).status, 200);
  assertEquals(place.errors(), []);
});

Deno.test("lockRoutes() gives a lease back with DELETE, once, at any server", async () => {
  await using place = await openTwo({ maxLeases: 1 });
  const [one, other] = place.urls;
  for (let round = 0; round < 3; round++) {
    assertEquals((await put(one, `a/i${round}`)).status, 200);
    assertTooMany(await put(other, "b/i"), "leases");
    assertEquals((await call(other, "DELETE", `/lock/a/i${round}`)).status, 200);
    assertEquals((await call(one, "DELETE", `/lock/a/i${round}`)).status, 404);
    assertEquals((await put(one, "b/i")).status, 200);
    assertEquals((await call(one, "DELETE", "/lock/b/i")).status, 200);
  }
  assertEquals(await place.redis.command("KEYS", "holdfast:1:limits:*"), []);
});

Deno.test("lockRoutes() counts repeated PUTs of the same id once", async () => {
  await using place = await openTwo({ maxLeases: 2 });
  const { urls } = place;
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => putUntilKnown(urls[i % 2]!, "a/same")),
  );
  assertEquals(statuses(answers), { 200: 20 });
  assertEquals((await put(urls[0], "b/i")).status, 200);
  assertTooMany(await put(urls[1], "c/i"), "leases");
  assertEquals((await put(urls[1], "a/same")).status, 200, "at the limit, too");
  assertEquals((await call(urls[0], "PATCH", "/lock/a/same")).status, 200);
});

Deno.test("lockRoutes() keeps the reservation of a granted PUT when another PUT of its id gets 409", async () => {
  await using place = await openTwo({ maxLeases: 1 });
  const { urls } = place;
  for (let round = 0; round < 10; round++) {
    await call(urls[0], "PUT", "/lock/a/x", { as: "bob" });
    // Some of these are refused while others wait, and get the lease when bob releases.
    const waiting = put(urls[0], "a/i", { ttlMs: LONG_TTL_MS, waitMs: WAIT_MS });
    const refused = Array.from({ length: 8 }, (_, i) => put(urls[i % 2]!, "a/i"));
    await Promise.race(refused);
    await call(urls[1], "DELETE", "/lock/a/x", { as: "bob" });
    if ((await waiting).status !== 503) assertEquals((await waiting).status, 200);
    else assertEquals((await putUntilKnown(urls[0], "a/i")).status, 200);
    await Promise.all(refused);
    assertTooMany(await put(urls[1], "b/i"), "leases");
    assertEquals((await call(urls[0], "DELETE", "/lock/a/i")).status, 200);
  }
});

Deno.test("lockRoutes() gives a place back when a PUT gets 409, when it has waited, and after a 404", async () => {
  await using place = await openTwo({ maxLeases: 1, maxWaiters: 1 });
  const [one, other] = place.urls;
  assertEquals((await call(one, "PUT", "/lock/a/x", { as: "bob" })).status, 200);
  assertEquals((await put(other, "a/i")).status, 409);
  assertEquals((await put(other, "a/i", { waitMs: 20 })).status, 409);
  assertEquals((await call(one, "PATCH", "/lock/a/i")).status, 404);
  await using bare = await openService({
    redisUrl: place.redis.url,
    lock: { keyPrefix: "" },
    limits: { maxLeases: 1 },
  });
  assertEquals((await put(bare.url, "holdfast:/i")).status, 400);
  assertEquals(await place.redis.command("KEYS", "holdfast:1:limits:{:alice}*"), []);
  assertEquals((await put(one, "b/i")).status, 200);
});

Deno.test("lockRoutes() lets no more than maxWaiters requests of a principal wait, and counts a waiting PUT as a lease", async () => {
  await using place = await openTwo({ maxLeases: 3, maxWaiters: 2 });
  const { urls, redis } = place;
  await call(urls[0], "PUT", "/lock/a/x", { as: "bob" });
  const waiting = [1, 2].map((i) => put(urls[i % 2]!, `a/i${i}`, { waitMs: WAIT_MS }));
  const waiters = async () => (await call(urls[0], "GET", "/lock/a")).body.waiterCount;
  await waitUntil("two requests wait", async () => await waiters() === 2);
  assertTooMany(await put(urls[0], "a/i3", { waitMs: WAIT_MS }), "waiters");
  assertEquals((await put(urls[0], "a/i3")).status, 409, "it does not wait");
  assertEquals((await put(urls[0], "b/i")).status, 200);
  assertTooMany(await put(urls[1], "c/i"), "leases");
  await call(urls[0], "DELETE", "/lock/a/x", { as: "bob" });
  const holder = await Promise.race(waiting.map((wait, i) => wait.then(() => `i${i + 1}`)));
  await waitUntil("one request waits", async () => await waiters() === 1);
  await call(urls[0], "DELETE", `/lock/a/${holder}`);
  assertEquals(statuses(await Promise.all(waiting)), { 200: 2 });
  assertEquals(await redis.command("KEYS", "holdfast:1:limits:*:waiters:*"), []);
  assertEquals(place.errors(), []);
});

Deno.test("lockRoutes() frees the leases of a killed server's clients by expiry, and lets none in before", async () => {
  await using stack = new AsyncDisposableStack();
  const redis = stack.use(await startRedis());
  const limits = { maxLeases: LIMIT };
  const doomed = stack.use(await startService({ redisUrl: redis.url, limits }));
  const other = stack.use(await openService({ redisUrl: redis.url, limits }));
  const watched = stack.use(watch(redis, "alice"));
  const body = { ttlMs: 2 * ENDING_TTL_MS };
  // One is renewed at the other server, the others end.
  assertEquals((await put(doomed.url, "k0/id")).status, 200);
  const patch = () => call(other.url, "PATCH", "/lock/k0/id", { body: { ttlMs: LONG_TTL_MS } });
  const startMs = performance.now();
  const granted = await Promise.all(
    Array.from({ length: LIMIT - 1 }, (_, i) => put(doomed.url, `k${i + 1}/id`, body)),
  );
  assertEquals(statuses(granted), { 200: LIMIT - 1 });
  await doomed.kill();
  assertEquals((await patch()).status, 200);
  await waitUntil("the places of the others are free", async () => {
    const answer = await put(other.url, "more/id", body);
    if (answer.status === 200) return true;
    assertTooMany(answer, "leases");
    return false;
  });
  // The clocks of Redis and of this process may differ by a ms.
  assertGreater(performance.now() - startMs, body.ttlMs - 5, "not before the leases have ended");
  const later = await Promise.all(
    Array.from({ length: PUTS }, (_, i) => put(other.url, `l${i}/id`)),
  );
  assertEquals(statuses(later)[200], LIMIT - 2);
  assertEquals((await patch()).status, 200);
  assertEquals(watched.seen.most, LIMIT);
});

Deno.test("lockRoutes() answers 503, and never grants, when the reservation is not answered", async () => {
  await using place = await openTwo({ maxLeases: 2 });
  const { redis, urls } = place;
  assertEquals((await put(urls[0], "a/i")).status, 200);
  await redis.command("SET", "holdfast:1:limits:{:carol}:leases:reservations", "another type");
  const wrong = await call(urls[0], "PUT", "/lock/b/i", { as: "carol" });
  assertEquals([wrong.status, wrong.body.type], [503, "urn:holdfast:problem:unavailable"]);
  assertEquals(await held(redis, "carol"), 0);
  assertEquals(place.errors().length, 1);
  await redis.command("CONFIG", "SET", "maxmemory", "1");
  assertEquals((await put(urls[0], "b/i")).status, 503, "Redis is full");
  await redis.command("CONFIG", "SET", "maxmemory", "0");
  assertEquals(await held(redis, "alice"), 1);
  assertEquals((await call(urls[0], "DELETE", "/lock/a/i")).status, 200);
});

Deno.test("lockRoutes() sends nothing for limits when there are none", async () => {
  await using redis = await startRedis();
  await using service = await openService({ redisUrl: redis.url });
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, i) => put(service.url, `k${i}/id`)),
  );
  assertEquals(statuses(answers), { 200: 50 });
  assertEquals(await redis.command("KEYS", "holdfast:1:limits:*"), []);
});

Deno.test("lockRoutes() throws on bad principal limits", async () => {
  await using redis = await startRedis();
  const { client, close } = await openRedisClient("node-redis", redis.url);
  const store = redisReservations(client);
  await using lock = new RedisLock(client);
  const register = async (principalLimits: unknown, others = {}) => {
    const app = Fastify();
    const options = { lock, authorize: () => "alice", ...others };
    app.register(lockRoutes, { ...options, principalLimits: principalLimits as PrincipalLimits });
    try {
      await app.ready();
    } finally {
      await app.close();
    }
  };
  await register({ store, maxLeases: 0, maxWaiters: 5 });
  await assertRejects(() => register({ store }, { maxBodyMs: 0 }), RangeError, "maxBodyMs");
  for (const bad of [null, 5, {}, { store: {} }, { store, max: 1 }, { store, maxLeases: "5" }]) {
    await assertRejects(() => register(bad), TypeError);
  }
  for (const bad of [{ maxLeases: -1 }, { maxWaiters: 1.5 }, { maxLeases: NaN }]) {
    await assertRejects(() => register({ store, ...bad }), RangeError);
  }
  assertThrows(() => redisReservations({} as never), TypeError, "nodeRedis");
  assertThrows(() => redisReservations(client, { keyPrefix: 5 as never }), TypeError, "keyPrefix");
  assertThrows(() => redisReservations(client, { timeoutMs: 0 }), RangeError, "timeoutMs");
  await close();
});

Deno.test("lockRoutes() leaves no lease without a reservation when a PUT is granted the lock as its wait ends", async () => {
  await using place = await openTwo({ maxLeases: 1 });
  const { redis, urls } = place;
  await redis.command("ACL", "SETUSER", "mute", "on", ">secret", "~*", "+@all", "resetchannels");
  const client = await openRedisClient("node-redis", redis.url.replace("//", "//mute:secret@"));
  // The release hands the lock over, but cannot notify the service.
  await using holder = new RedisLock(client.client);
  const lease = await holder.acquire("k");
  let isOver = false;
  const waiting = put(urls[0], "k/id", { ttlMs: 60_000, waitMs: 400 });
  waiting.finally(() => isOver = true);
  await waitUntil("the PUT waits", async () => (await holder.query("k")).waiterCount === 1);
  await lease.release();
  assertEquals(await held(redis, "alice"), 1, "the lock was handed over");
  assert(!isOver, "the PUT still waits");
  const { status } = await waiting;
  const other = await put(urls[1], "other/id");
  assertEquals([status, other.status], [200, 429]);
  assertEquals(await held(redis, "alice"), 1);
  await client.close();
});
