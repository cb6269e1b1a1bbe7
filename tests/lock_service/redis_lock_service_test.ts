import { assert, assertEquals, assertMatch } from "@std/assert";
import { fileURLToPath } from "node:url";
import type { RedisLockOptions } from "../../redis/mod.ts";
import { runCommand } from "../../testing/servers/command.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { keysLeft } from "../../testing/redis/residue.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import {
  CONDITION_BOUND_MS,
  ENDING_TTL_MS,
  LONG_BOUND_MS,
  LONG_TTL_MS,
  scaled,
} from "../../testing/time.ts";
import { type Answer, call, startService } from "../../testing/lock_service/lock_service.ts";

const SCRIPT = fileURLToPath(
  new URL("../../testing/lock_service/lock_service_curl.sh", import.meta.url),
);
/** How often two servers renew a lease at once. */
const ROUNDS = Deno.env.get("HOLDFAST_SOAK") ? 200 : 30;
/** The longest time that a client may wait. */
const WAIT_MS = 30_000;

const curl = await runCommand(["curl", "--version"], 10_000).then(
  ({ success }) => success,
  () => false,
);

Deno.test({
  name: "lockRoutes() answers curl as documented" +
    (curl ? "" : " [skipped: curl is not installed]"),
  ignore: !curl,
  async fn() {
    await using redis = await startRedis();
    await using service = await startService({ redisUrl: redis.url });
    const { success, output } = await runCommand(["sh", SCRIPT, service.url], LONG_BOUND_MS);
    assert(success, output);
    assert(/\d{3} checks passed/.test(output), output);
  },
});

/** Starts Redis, and lock services in processes that end before it. */
async function open(processes: number, lock: RedisLockOptions = {}) {
  await using stack = new AsyncDisposableStack();
  const redis = stack.use(await startRedis());
  const start = () => startService({ redisUrl: redis.url, lock });
  const services = await Promise.all(Array.from({ length: processes }, () => start()));
  for (const service of services) stack.use(service);
  const owned = stack.move();
  return { redis, services, start, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

function take(url: string, key: string, id: string, body?: unknown): Promise<Answer> {
  return call(url, "PUT", `/lock/${key}/${id}`, { body });
}

const tokenOf = ({ body }: Answer) => BigInt(body.fencingToken);

for (const [name, end] of [["killed", "kill"], ["closed gracefully", "finish"]] as const) {
  Deno.test(`lockRoutes() keeps its leases when the server is ${name}`, async () => {
    await using place = await open(1);
    const service = place.services[0]!;
    const first = await take(service.url, "k", "one", { ttlMs: LONG_TTL_MS });
    const gone = await take(service.url, "gone", "one", { ttlMs: LONG_TTL_MS });
    assertEquals([first.status, gone.status], [200, 200]);
    const code = await service[end]();
    if (end === "finish") assertEquals(code, 0);
    await using next = await place.start();
    const { url } = next;
    assertEquals((await take(url, "k", "two")).status, 409);
    for (const method of ["PATCH", "DELETE"]) {
      assertEquals((await call(url, method, "/lock/k/two")).status, 404);
    }
    const renewed = await call(url, "PATCH", "/lock/k/one", { body: { ttlMs: 300_000 } });
    assertEquals(renewed.status, 200);
    assert(renewed.body.remainingMs > LONG_TTL_MS, "the lease is extended");
    assert(tokenOf(renewed) >= tokenOf(first));
    assertEquals((await call(url, "DELETE", "/lock/k/one")).status, 200);
    const other = await take(url, "k", "two");
    assert(tokenOf(other) > tokenOf(renewed));
    // A lease that no request has touched since the restart.
    assertEquals((await call(url, "DELETE", "/lock/gone/one")).status, 200);
    assertEquals((await call(url, "GET", "/lock/gone")).body.held, false);
    await call(url, "DELETE", "/lock/k/two");
    assertEquals(await keysLeft(place.redis.command), []);
  });
}

Deno.test("lockRoutes() lets a lease expire that nobody renews after a restart of the server", async () => {
  await using place = await open(1);
  const service = place.services[0]!;
  assertEquals((await take(service.url, "k", "one", { ttlMs: ENDING_TTL_MS })).status, 200);
  await service.kill();
  await using another = await place.start();
  const { url } = another;
  const next = await take(url, "k", "two", { waitMs: WAIT_MS });
  assertEquals(next.status, 200);
  assertEquals((await call(url, "PATCH", "/lock/k/one")).status, 404);
});

Deno.test("lockRoutes() on two servers answers from Redis, not from what one server remembers", async () => {
  await using place = await open(2);
  const [a, b] = place.services.map(({ url }) => url) as [string, string];
  const ttl = { body: { ttlMs: LONG_TTL_MS } };
  const first = await take(a, "k", "one", { ttlMs: LONG_TTL_MS });
  const renewed = await call(b, "PATCH", "/lock/k/one", ttl);
  assertEquals(renewed.status, 200);
  assert(tokenOf(renewed) > tokenOf(first));
  // The servers take turns: tokens never shrink, and each server can renew the lease.
  let last = tokenOf(renewed);
  for (const [url, method] of [[a, "PUT"], [b, "PUT"], [a, "PATCH"], [b, "PATCH"]] as const) {
    const answer = await call(url, method, "/lock/k/one", ttl);
    assertEquals(answer.status, 200);
    assert(tokenOf(answer) >= last);
    last = tokenOf(answer);
    for (const each of [a, b]) {
      const { body } = await call(each, "GET", "/lock/k");
      assertEquals([body.held, BigInt(body.fencingToken)], [true, last]);
    }
  }
  // A renewal with a shorter TTL never shortens the lease, on either server.
  for (const url of [a, b]) {
    const { body } = await call(url, "PATCH", "/lock/k/one", { body: { ttlMs: 100 } });
    assert(body.remainingMs > LONG_TTL_MS / 2);
  }
  // After a release on one server, the other must not trust the lease that it remembers.
  assertEquals((await call(a, "DELETE", "/lock/k/one")).status, 200);
  assertEquals((await call(b, "PATCH", "/lock/k/one")).status, 404);
  assertEquals((await call(b, "DELETE", "/lock/k/one")).status, 404);
  assertEquals((await take(a, "k", "one", { ttlMs: LONG_TTL_MS })).status, 200);
  assertEquals((await call(b, "DELETE", "/lock/k/one")).status, 200);
  // The same after somebody else has acquired the lock.
  assertEquals((await take(b, "k", "two", { ttlMs: LONG_TTL_MS })).status, 200);
  assertEquals((await call(a, "PATCH", "/lock/k/one")).status, 404);
  assertEquals((await call(a, "DELETE", "/lock/k/one")).status, 404);
  assertEquals((await take(a, "k", "one")).status, 409);
  assertEquals((await call(a, "DELETE", "/lock/k/two")).status, 200);
  assertEquals(await keysLeft(place.redis.command), []);
});

Deno.test("lockRoutes() PUT leaves both queues when an id that waits at two servers gets the lock", async () => {
  await using place = await open(2);
  const [a, b] = place.services.map(({ url }) => url) as [string, string];
  const state = async () => (await call(a, "GET", "/lock/k")).body;
  assertEquals((await take(a, "k", "holder")).status, 200);
  const waits: Promise<Answer>[] = [];
  for (const url of [a, b]) {
    waits.push(take(url, "k", "one", { waitMs: WAIT_MS }));
    await waitUntil("it waits", async () => (await state()).waiterCount === waits.length);
  }
  assertEquals((await call(a, "DELETE", "/lock/k/holder")).status, 200);
  for (const { status } of await Promise.all(waits)) assertEquals(status, 200);
  assertEquals((await state()).waiterCount, 0);
  // The place that is left in the other queue must not be granted the lock.
  assertEquals((await call(a, "DELETE", "/lock/k/one")).status, 200);
  assertEquals((await state()).held, false);
  assertEquals((await call(b, "PATCH", "/lock/k/one")).status, 404);
  assertEquals((await take(b, "k", "two")).status, 200);
});

Deno.test("lockRoutes() renews a lease each time when two servers renew it at once", async () => {
  await using place = await open(2);
  const urls = place.services.map(({ url }) => url);
  assertEquals((await take(urls[0]!, "k", "one")).status, 200);
  for (let round = 0; round < ROUNDS; round++) {
    const methods = ["PATCH", "PUT", "PATCH", "PATCH", "PUT", "PATCH"];
    const answers = await Promise.all(
      methods.map((method, i) => call(urls[i % 2]!, method, "/lock/k/one")),
    );
    assertEquals(answers.map(({ status }) => status), methods.map(() => 200));
  }
  assertEquals((await call(urls[1]!, "DELETE", "/lock/k/one")).status, 200);
});

Deno.test("lockRoutes() answers 503 in time when Redis does not answer", async () => {
  await using place = await open(1, { unavailableAfterMs: scaled(1_000) });
  const { url } = place.services[0]!;
  // Of the requests of one id only one asks at a time.
  for (const key of ["remembered", "renewed", "released"]) {
    assertEquals((await take(url, key, "one", { ttlMs: 300_000 })).status, 200);
  }
  assertEquals((await take(url, "held", "one", { ttlMs: 300_000 })).status, 200);
  const waiting = take(url, "held", "two", { waitMs: WAIT_MS });
  await waitUntil(
    "it waits",
    async () => (await call(url, "GET", "/lock/held")).body.waiterCount === 1,
  );
  await place.redis.pause();
  const startMs = performance.now();
  const answers = await Promise.all([
    waiting,
    take(url, "free", "one"),
    take(url, "free", "two", { waitMs: 100 }),
    take(url, "remembered", "one"),
    call(url, "PATCH", "/lock/renewed/one"),
    call(url, "PATCH", "/lock/free/three"),
    call(url, "DELETE", "/lock/released/one"),
    call(url, "DELETE", "/lock/free/four"),
    call(url, "GET", "/lock/free"),
  ]);
  const tookMs = performance.now() - startMs;
  for (const { status, headers, body } of answers) {
    assertEquals([status, body.type], [503, "urn:holdfast:problem:unavailable"]);
    assertMatch(headers.get("retry-after")!, /^[12]$/);
  }
  assert(tookMs < CONDITION_BOUND_MS, "the answers do not wait for the end of the lease");
  await place.redis.resume();
  // Redis may have executed the requests later. The service works again, and answers repeated requests.
  await waitUntil("it answers", async () => (await call(url, "GET", "/lock/held")).status === 200);
  assertEquals((await call(url, "PATCH", "/lock/held/one")).status, 200);
  assertEquals((await call(url, "DELETE", "/lock/held/one")).status, 200);
});
