/**
 * An outage while requests wait: every web part reports what `acquire()` rejects with, and as soon.
 */
import { assert, assertEquals, assertInstanceOf, assertLess } from "@std/assert";
import { All, Controller } from "@nestjs/common";
import { Lock } from "../../http/nestjs.ts";
import { type DistributedLock, LockUnavailableError } from "../../mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { decorate, serveNest } from "../../testing/http/nest_server.ts";
import {
  express5,
  fastify,
  fetchApi,
  hono,
  koa,
  lambda,
  type RouteOptions,
  type Serve,
} from "../../testing/http/one_route.ts";
import { say } from "../../testing/processes/figures.ts";
import { watchStalls } from "../../testing/processes/stalls.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { scaled } from "../../testing/time.ts";

/** Below and above the 5 s for which an outage may last. */
const WAITS_MS = [0, 500, 2_000, 8_000];
/** How much earlier or later, in ms, a request may end than `acquire()`. */
const TOLERANCE_MS = scaled(1_000);
const REACHED = () => new Response("reached");

const PARTS: Readonly<Record<string, (options: RouteOptions) => Serve>> = {
  fetchLock: (options) => fetchApi(REACHED, options),
  honoLock: (options) => hono(REACHED, options),
  koaLock: (options) => koa(() => "reached", options),
  expressLock: (options) => express5((res) => res.send("reached"), options),
  fastifyLock: (options) => fastify(() => "reached", options),
  lambdaLock: (options) => lambda(() => "reached", options),
  nestLock: nest,
};

function nest({ key, onFailure: _, ...options }: RouteOptions): Serve {
  class Routes {
    get() {
      return "reached";
    }
  }
  Controller()(Routes);
  decorate(Routes, "get", All("/"), Lock({ ...options, key: key as () => string }));
  return async (lock) => {
    const served = await serveNest(lock, [Routes]);
    return { url: served.url, stop: async () => await served[Symbol.asyncDispose]() };
  };
}

/** How a call for the lock has ended, without the request around it. */
interface Ended {
  readonly error: unknown;
  readonly tookMs: number;
}

/** What a call has ended with. */
interface Outcome {
  readonly code: string;
  readonly cause: string;
  readonly tookMs: number;
}

function outcomeOf({ error, tookMs }: Ended): Outcome {
  assertInstanceOf(error, LockUnavailableError, String(error));
  const { code, cause } = error;
  return { code, cause: cause === undefined ? "-" : (cause as Error).constructor.name, tookMs };
}

/** A connection that was closed, or is refused: a request may come before or after the client knows that. */
function kindOf(cause: string): string {
  return cause === "SocketClosedUnexpectedlyError" ? "Error" : cause;
}

/** Makes all calls at once: the rows are `acquire()` and the web parts, the columns the waits. */
async function table(lock: DistributedLock, freeze: () => void): Promise<Map<string, Outcome[]>> {
  const startsMs = new Map<string, number>();
  const ends = new Map<string, Ended>();
  const begin = (name: string) => {
    startsMs.set(name, performance.now());
    return name;
  };
  const end = (name: string, error: unknown) => {
    const tookMs = Math.round(performance.now() - startsMs.get(name)!);
    ends.set(name, { error, tookMs });
  };
  const calls: [part: string, call: (name: string, waitMs: number) => Promise<unknown>][] = [];
  await using servers = new AsyncDisposableStack();
  calls.push(["acquire()", async (name, waitMs) => {
    await lock.acquire(begin(name), { waitMs }).catch((error) => end(name, error));
  }]);
  for (const [part, start] of Object.entries(PARTS)) {
    const urls = new Map<number, string>();
    for (const waitMs of WAITS_MS) {
      const name = `${part} ${waitMs}`;
      const onError = (error: unknown) => end(name, error);
      const { url, stop } = await start({ key: () => begin(name), waitMs, onError })(lock);
      servers.defer(async () => void await stop());
      urls.set(waitMs, url);
      const warm = await fetch(url); // the first request of a server takes longer
      assertEquals([warm.status, await warm.text()], [200, "reached"], name);
    }
    calls.push([part, async (name, waitMs) => {
      const response = await fetch(urls.get(waitMs)!);
      await response.body?.cancel();
      assertEquals(response.status, 503, name);
    }]);
  }
  freeze();
  const rows = calls.map(async ([part, call]) => {
    const outcomes = WAITS_MS.map(async (waitMs) => {
      const name = `${part} ${waitMs}`;
      await call(name, waitMs);
      return outcomeOf(ends.get(name)!);
    });
    return [part, await Promise.all(outcomes)] as const;
  });
  return new Map(await within("all calls end", Promise.all(rows)));
}

const OUTAGES = { frozen: "SIGSTOP", killed: "SIGKILL" } as const;

for (const [outage, signal] of Object.entries(OUTAGES)) {
  Deno.test(`every web part reports an outage as acquire() does, with each waitMs, when Redis is ${outage}`, async () => {
    await using redis = await startRedis();
    const { client, close } = await openRedisClient("node-redis", redis.url);
    const lock = new RedisLock(client, { disposeTimeoutMs: 0 });
    try {
      await (await lock.acquire("warm")).release();
      using stalls = watchStalls();
      const rows = await table(lock, () => redis.kill(signal));
      const toleranceMs = TOLERANCE_MS + stalls.longestMs;
      const expected = rows.get("acquire()")!;
      for (const [part, row] of rows) {
        const cells = row.map(({ code, cause, tookMs }) => `${code} ${cause} ${tookMs} ms`);
        say(`${outage}, ${part}: ${cells.join(" | ")}`);
        for (const [i, { code, cause, tookMs }] of row.entries()) {
          const { tookMs: expectedMs, ...wanted } = expected[i]!;
          const where = `${part}, waitMs ${WAITS_MS[i]}`;
          assertEquals([code, kindOf(cause)], [wanted.code, kindOf(wanted.cause)], where);
          assertLess(Math.abs(tookMs - expectedMs), toleranceMs, where);
        }
      }
      assert(rows.size === 1 + Object.keys(PARTS).length);
    } finally {
      if (signal === "SIGSTOP") redis.kill("SIGCONT");
      await lock[Symbol.asyncDispose]();
      await close();
    }
  });
}
