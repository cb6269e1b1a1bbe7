import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import Fastify from "fastify";
import { FileLock } from "../../file/mod.ts";
import { lockRoutes, type LockRoutesOptions } from "../../lock_service/mod.ts";
import { type DistributedLock, MemoryLock } from "../../mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { keysLeft } from "../../testing/redis/residue.ts";
import { type RedisCommand, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";
import {
  authorize,
  call,
  openService,
  type ServiceOptions,
} from "../../testing/lock_service/lock_service.ts";

/** The longest time that a client may wait. */
const WAIT_MS = 30_000;

/** Starts a lock service with its own Redis. */
async function open(options: Omit<ServiceOptions, "redisUrl"> = {}) {
  await using stack = new AsyncDisposableStack();
  const redis = stack.use(await startRedis());
  const service = stack.use(await openService({ redisUrl: redis.url, ...options }));
  const { url, errors, app } = service;
  const owned = stack.move();
  const waiters = async (key: string) => (await call(url, "GET", `/lock/${key}`)).body.waiterCount;
  return { redis, url, errors, app, waiters, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function register(options: Partial<LockRoutesOptions>): Promise<void> {
  const app = Fastify();
  app.register(lockRoutes, options as LockRoutesOptions);
  try {
    await app.ready();
  } finally {
    await app.close();
  }
}

Deno.test("lockRoutes() throws without an authorize function, and on bad options", async () => {
  await using redis = await startRedis();
  const { client, close } = await openRedisClient("node-redis", redis.url);
  await using lock = new RedisLock(client);
  for (const given of [undefined, null, true, "alice"]) {
    const options = { lock, ...(given === undefined ? {} : { authorize: given as never }) };
    await assertRejects(() => register(options), TypeError, "'authorize'");
  }
  const options = { lock, authorize };
  await assertRejects(() => register({ ...options, onError: 1 as never }), TypeError, "'onError'");
  for (const bad of [{ maxTtlMs: 9 }, { maxWaitMs: -1 }, { defaultTtlMs: 1.5 }]) {
    await assertRejects(() => register({ ...options, ...bad }), RangeError);
  }
  await assertRejects(() => register({ ...options, maxTtlMs: 50, defaultTtlMs: 60 }), RangeError);
  await register(options);
  await close();
});

Deno.test("lockRoutes() throws when the lock's strategy has no attach()", async () => {
  const dir = await Deno.makeTempDir({ prefix: "holdfast-" });
  const locks: DistributedLock[] = [
    new MemoryLock(),
    new FileLock({ dir }),
    new ZooKeeperLock("127.0.0.1:1"),
  ];
  for (const lock of locks) {
    await assertRejects(() => register({ lock, authorize }), TypeError, "'attach'");
    await lock[Symbol.asyncDispose]();
  }
  await assertRejects(() => register({ authorize }), TypeError, "'attach'");
  await Deno.remove(dir, { recursive: true });
});

Deno.test("lockRoutes() keeps principals apart when their ids are equal or look alike", async () => {
  await using place = await open();
  const { url, redis } = place;
  const put = (as: string, id: string) => call(url, "PUT", `/lock/k/${id}`, { as });
  const pairs = [["alice", "bob"], ["a:b", "a"], ["a%3Ab", "a:b"], ["ü", "u"], ["a", "A"]] as const;
  for (const [as, other] of pairs) {
    assertEquals((await put(as, "c")).status, 200);
    assertEquals((await put(other, "c")).status, 409);
    for (const method of ["PATCH", "DELETE"]) {
      assertEquals((await call(url, method, "/lock/k/c", { as: other })).status, 404);
    }
    // A ":" in the id cannot shift the boundary between principal and id.
    for (const id of ["b:c", "b%3Ac", "b%253Ac"]) {
      assertEquals((await call(url, "DELETE", `/lock/k/${id}`, { as: "a" })).status, 400);
    }
    assertEquals((await call(url, "DELETE", "/lock/k/c", { as })).status, 200);
  }
  assertEquals(place.errors, []);
  await put("a:b", "c");
  assert(String(await redis.command("GET", "lock:k")).startsWith("a%3Ab:c#"));
});

Deno.test("lockRoutes() refuse the owner id that stands for all holders of a shared lock", async () => {
  await using place = await open();
  const { url, redis } = place;
  const { client, close } = await openRedisClient("node-redis", redis.url);
  {
    await using lock = new RedisLock(client);
    await using reader = await lock.acquire("k", { mode: "shared" });
    for (const method of ["PUT", "PATCH", "DELETE"]) {
      assertEquals((await call(url, method, "/lock/k/shared", { as: "holdfast" })).status, 400);
    }
    await reader.renew();
  }
  await close();
  assertEquals(place.errors, []);
});

Deno.test("lockRoutes() asks authorize() with action and key, and answers 401, 403, 429 or 500 as it decides", async () => {
  const asked: unknown[] = [];
  const hook: LockRoutesOptions["authorize"] = (_request, authorization) => {
    asked.push(authorization);
    switch (authorization.key) {
      case "null":
        return null;
      case "empty":
        return "";
      case "late":
        return Promise.resolve(null);
      case "401":
        throw Object.assign(new Error("Say who you are"), { statusCode: 401 });
      case "429":
        throw Object.assign(new Error("Slowly"), { statusCode: 429, headers: { "x-rate": "1" } });
      case "range":
        throw new RangeError("secret"); // as timingSafeEqual() does
      case "aborted":
        throw new DOMException("secret", "AbortError");
      case "503":
        throw Object.assign(new Error("secret"), { statusCode: 503 });
      case "long":
        return "x".repeat(500);
      case "true":
        return true as unknown as string;
      default:
        return Promise.resolve("alice");
    }
  };
  await using place = await open({ routes: { authorize: hook } });
  const { url, errors } = place;
  for (
    const [key, status] of [["null", 403], ["empty", 403], ["late", 403], ["401", 401]] as const
  ) {
    const { status: got, headers, body } = await call(url, "PUT", `/lock/${key}/i`);
    assertEquals([got, body.status, body.type], [status, status, "urn:holdfast:problem:forbidden"]);
    assertEquals(headers.get("content-type"), "application/problem+json; charset=utf-8");
    if (key === "401") assertEquals(body.detail, "Say who you are");
  }
  assertEquals((await call(url, "PUT", "/lock/true/i")).status, 403);
  const slow = await call(url, "PUT", "/lock/429/i");
  assertEquals([slow.status, slow.headers.get("x-rate"), slow.body.detail], [429, "1", "Slowly"]);
  assertEquals(errors, []);
  for (const key of ["range", "aborted", "503", "long"]) {
    const { status, body } = await call(url, "PUT", `/lock/${key}/i`);
    assertEquals([status, JSON.stringify(body).includes("secret")], [500, false]);
  }
  assertEquals(errors.length, 4);
  assertEquals((errors[0] as Error).cause instanceof RangeError, true);
  asked.length = 0;
  for (const method of ["PUT", "PATCH", "DELETE"]) await call(url, method, "/lock/a%2Fb/i");
  await call(url, "GET", "/lock/a%2Fb");
  const actions = ["acquire", "renew", "release", "query"];
  assertEquals(asked, actions.map((action) => ({ action, key: "a/b" })));
});

Deno.test("lockRoutes() PUT serves waiting requests in order when the lock is released", async () => {
  await using place = await open();
  const { url, waiters } = place;
  await call(url, "PUT", "/lock/k/holder");
  const served: string[] = [];
  const waits: Promise<void>[] = [];
  for (const id of ["a", "b", "c"]) {
    waits.push((async () => {
      const { status } = await call(url, "PUT", `/lock/k/${id}`, { body: { waitMs: WAIT_MS } });
      served.push(`${id} ${status}`);
      assertEquals((await call(url, "DELETE", `/lock/k/${id}`)).status, 200);
    })());
    await waitUntil(`${id} waits`, async () => await waiters("k") === waits.length);
  }
  // A request with the same id that does not wait leaves the waiting one in place.
  assertEquals((await call(url, "PUT", "/lock/k/a")).status, 409);
  assertEquals((await call(url, "DELETE", "/lock/k/holder")).status, 200);
  await Promise.all(waits);
  assertEquals(served, ["a 200", "b 200", "c 200"]);
  assertEquals(await keysLeft(place.redis.command), []);
});

Deno.test("lockRoutes() PUT goes on waiting, last in the queue, after a PATCH and a DELETE of its id", async () => {
  await using place = await open();
  const { url, waiters } = place;
  await call(url, "PUT", "/lock/k/holder");
  const served: string[] = [];
  const wait = async (id: string) => {
    const { status } = await call(url, "PUT", `/lock/k/${id}`, { body: { waitMs: WAIT_MS } });
    served.push(`${id} ${status}`);
    assertEquals((await call(url, "DELETE", `/lock/k/${id}`)).status, 200);
  };
  const waits = [wait("a")];
  await waitUntil("a waits", async () => await waiters("k") === 1);
  waits.push(wait("b"));
  await waitUntil("both wait", async () => await waiters("k") === 2);
  for (const method of ["PATCH", "DELETE"]) {
    assertEquals((await call(url, method, "/lock/k/a")).status, 404);
    await waitUntil("both wait again", async () => await waiters("k") === 2);
  }
  assertEquals((await call(url, "DELETE", "/lock/k/holder")).status, 200);
  await Promise.all(waits);
  assertEquals(served, ["b 200", "a 200"]);
  assertEquals(await keysLeft(place.redis.command), []);
});

Deno.test("lockRoutes() PUT leaves the queue when its client disconnects", async () => {
  await using place = await open();
  const { url, waiters } = place;
  await call(url, "PUT", "/lock/k/holder");
  const leave = new AbortController();
  const options = { body: { waitMs: WAIT_MS }, signal: leave.signal };
  const waiting = call(url, "PUT", "/lock/k/gone", options);
  await waitUntil("it waits", async () => await waiters("k") === 1);
  leave.abort();
  await assertRejects(() => waiting, DOMException);
  await waitUntil("nobody waits", async () => await waiters("k") === 0);
  assertEquals((await call(url, "DELETE", "/lock/k/holder")).status, 200);
  assertEquals((await call(url, "GET", "/lock/k")).body.held, false);
  await waitUntil(
    "nothing is left",
    async () => (await keysLeft(place.redis.command)).length === 0,
  );
  assertEquals(place.errors, []);
});

Deno.test("lockRoutes() PUT keeps the lease of the first request when a repeated one is cut off", async () => {
  await using place = await open();
  const { url, redis } = place;
  // The lease is made by another server, so that this one does not remember it.
  await using other = await openService({ redisUrl: redis.url });
  for (let round = 0; round < 20; round++) {
    assertEquals((await call(other.url, "PUT", "/lock/k/one")).status, 200);
    const leave = new AbortController();
    const options = { body: { waitMs: round % 2 * 1_000 }, signal: leave.signal };
    const repeated = call(url, "PUT", "/lock/k/one", options).catch(() => {});
    setTimeout(() => leave.abort(), round / 4);
    await repeated;
    assertEquals((await call(other.url, "PATCH", "/lock/k/one")).status, 200);
    assertEquals((await call(other.url, "DELETE", "/lock/k/one")).status, 200);
  }
});

Deno.test("lockRoutes() PUT gets its lease when it is granted the lock as its wait ends", async () => {
  await using service = await open();
  const { redis, url } = service;
  await redis.command("ACL", "SETUSER", "mute", "on", ">secret", "~*", "+@all", "resetchannels");
  const { client, close } = await openRedisClient(
    "node-redis",
    redis.url.replace("//", "//mute:secret@"),
  );
  {
    // The release makes the PUT the holder, but cannot notify the service.
    await using holder = new RedisLock(client, { onWarning: () => {} });
    const lease = await holder.acquire("k");
    const waiting = call(url, "PUT", "/lock/k/id", { body: { ttlMs: 60_000, waitMs: 2_000 } });
    await waitUntil("the PUT waits", async () => (await service.waiters("k")) === 1);
    await lease.release();
    assertEquals((await waiting).status, 200);
  }
  await close();
});

Deno.test("lockRoutes() PUT shares its answer with repeated ones, and refuses other terms with 409", async () => {
  let gone = 0;
  await using service = await open({
    prepare: (app) =>
      void app.addHook("onRequest", (_request, { raw }, done) => {
        raw.once("close", () => raw.writableFinished || gone++);
        done();
      }),
  });
  const { url, waiters } = service;
  const put = (id: string, body: unknown, signal?: AbortSignal) =>
    call(url, "PUT", `/lock/k/${id}`, { body, ...signal && { signal } });
  await put("holder", {});
  const terms = { waitMs: WAIT_MS };
  const left = new AbortController();
  const answers = [put("i", terms), put("i", terms), put("i", terms, left.signal)];
  await waitUntil("they wait", async () => (await waiters("k")) === 1);
  const other = await put("i", { waitMs: 5 });
  assertEquals([other.status, other.body.type], [409, "urn:holdfast:problem:in-progress"]);
  left.abort();
  await assertRejects(() => answers.pop()!, DOMException);
  await waitUntil("the server has noticed", () => gone === 1);
  assertEquals(await waiters("k"), 1, "the others still wait");
  await call(url, "DELETE", "/lock/k/holder");
  const [one, two] = await Promise.all(answers);
  assertEquals([one!.status, two!.body], [200, one!.body]);
});

Deno.test("lockRoutes() ends waits with 503 and keeps leases when the server closes", async () => {
  await using redis = await startRedis();
  await redis.command("PING");
  const before = await connections(redis.command);
  const service = await openService({
    redisUrl: redis.url,
    fastify: { forceCloseConnections: false },
  });
  assertEquals((await call(service.url, "PUT", "/lock/k/holder")).status, 200);
  const waiting = call(service.url, "PUT", "/lock/k/waiter", { body: { waitMs: WAIT_MS } });
  const queue = () => call(service.url, "GET", "/lock/k");
  await waitUntil("it waits", async () => (await queue()).body.waiterCount === 1);
  await within("the server closes", service[Symbol.asyncDispose]());
  const { status, headers } = await waiting;
  assertEquals(status, 503);
  assertMatch(headers.get("retry-after")!, /^[12]$/);
  await waitUntil("no connection is left", async () => await connections(redis.command) === before);
  assertEquals(await redis.command("PUBSUB", "CHANNELS"), []);
  assertEquals(await keysLeft(redis.command), ["lock:k"]);
});

/** Counts the clients of Redis. */
async function connections(command: RedisCommand): Promise<number> {
  return String(await command("CLIENT", "LIST")).trim().split("\n").length;
}

Deno.test("lockRoutes() grants one lease when requests with the same id run at once", async () => {
  await using place = await open();
  const { url } = place;
  for (let round = 0; round < 5; round++) {
    const same = Array.from({ length: 10 }, () => call(url, "PUT", "/lock/k/one"));
    const tokens = new Set((await Promise.all(same)).map(({ status, body }) => {
      assertEquals(status, 200);
      return body.fencingToken;
    }));
    assertEquals(tokens.size, 1);
    // The DELETE runs before or after the PUT: the lock is held or free then.
    const [put, del] = await Promise.all([
      call(url, "PUT", "/lock/k/one"),
      call(url, "DELETE", "/lock/k/one"),
    ]);
    assertEquals([put.status, del.status], [200, 200]);
    const { held } = (await call(url, "GET", "/lock/k")).body;
    assertEquals((await call(url, "DELETE", "/lock/k/one")).status, held ? 200 : 404);
    assertEquals((await call(url, "GET", "/lock/k")).body.held, false);
  }
  const deletes = await (async () => {
    await call(url, "PUT", "/lock/k/one");
    return await Promise.all([1, 2, 3].map(() => call(url, "DELETE", "/lock/k/one")));
  })();
  assertEquals(deletes.map(({ status }) => status).sort(), [200, 404, 404]);
});

Deno.test("lockRoutes() works below a prefix and leaves other routes alone", async () => {
  await using place = await open({
    routes: { prefix: "/api/:tenant/" },
    fastify: {
      routerOptions: {
        ignoreTrailingSlash: true,
        ignoreDuplicateSlashes: true,
        caseSensitive: false,
      },
    },
    prepare(app) {
      app.addContentTypeParser("text/shout", { parseAs: "string" }, (_request, body, done) => {
        done(null, String(body).toUpperCase());
      });
      app.post("/echo", (request) => ({ is: request.body }));
      app.get("/fail", () => {
        throw new Error("own");
      });
    },
  });
  const { url } = place;
  const key = `K%2F${"k".repeat(998)}`;
  assertEquals((await call(url, "PUT", `/api/acme/lock/${key}/One`)).status, 200);
  assertEquals((await call(url, "PUT", `/API/other/LOCK/${key}/one`)).status, 409);
  assertEquals((await call(url, "PATCH", `//api/acme//lock/${key}/One/`)).status, 200);
  const { body } = await call(url, "GET", `/api/acme/lock/${key}/`);
  assertEquals([body.key, body.held], [decodeURIComponent(key), true]);
  assertEquals((await call(url, "PUT", "//api/acme/lock/k")).status, 405);
  assertEquals((await call(url, "PUT", "/api/acme/lock/k//i")).status, 404);
  assertEquals((await call(url, "DELETE", `/api/acme/lock/${key}/One?a=/b/c`)).status, 200);
  // The parsers and error handlers of the parent instance are unchanged.
  const post = (type: string, text: string) =>
    place.app.inject({
      method: "POST",
      url: "/echo",
      headers: { "content-type": type },
      payload: text,
    });
  assertEquals((await post("application/json", '{"a":1}')).json(), { is: { a: 1 } });
  assertEquals((await post("application/json", "{")).statusCode, 400);
  assertEquals((await post("text/shout", "hey")).json(), { is: "HEY" });
  assertEquals((await post("application/xml", "<a/>")).statusCode, 415);
  const failed = await place.app.inject({ url: "/fail" });
  assertEquals([failed.statusCode, failed.json().message], [500, "own"]);
});

Deno.test("lockRoutes() answers 400 to a key that only RedisLock rejects, even when onError throws", async () => {
  const onError = () => {
    throw new Error("The log is full");
  };
  await using place = await open({ lock: { keyPrefix: "" }, routes: { onError } });
  const { url } = place;
  const { status, body } = await call(url, "PUT", "/lock/holdfast:x/i");
  assertEquals([status, body.type], [400, "urn:holdfast:problem:bad-request"]);
  assert(body.detail.includes("holdfast:"), body.detail);
  // A key without a TTL, as another library may set it.
  await place.redis.command("SET", "foreign", "x");
  const busy = await call(url, "PUT", "/lock/foreign/i");
  assertEquals(busy.status, 409);
  assertMatch(busy.headers.get("retry-after")!, /^[12]$/);
  assertEquals("remainingMs" in busy.body, false);
  assertEquals((await call(url, "GET", "/lock/foreign")).body, {
    key: "foreign",
    held: true,
    waiterCount: 0,
  });
  assertEquals((await call(url, "DELETE", "/lock/foreign/i")).status, 404);
  await place.redis.command("HSET", "wrong-type", "a", "b");
  const wrong = await call(url, "PUT", "/lock/wrong-type/i");
  assert(wrong.status === 503 || wrong.status === 500, `${wrong.status}`);
  assert(!JSON.stringify(wrong.body).includes("WRONGTYPE"));
});
