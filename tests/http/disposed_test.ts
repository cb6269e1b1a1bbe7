/** A disposed lock never runs the handler: its server is about to stop, which is not an outage. */
import { assertEquals } from "@std/assert";
import { type LeaseLostError, LeaseLostError as LeaseLost, MemoryLock } from "../../mod.ts";
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
import { withLeases } from "../../testing/http/with_leases.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS } from "../../testing/time.ts";

type Handle = () => unknown;

const SERVERS: Record<string, (handle: Handle, options: RouteOptions) => Serve> = {
  fetchLock: (handle, options) =>
    fetchApi(async () => (await handle(), new Response("done")), options),
  honoLock: (handle, options) => hono(async () => (await handle(), new Response("done")), options),
  koaLock: (handle, options) => koa(async () => (await handle(), "done"), options),
  expressLock: (handle, options) =>
    express5(async (res) => (await handle(), res.send("done")), options),
  fastifyLock: (handle, options) => fastify(async () => (await handle(), "done"), options),
  lambdaLock: (handle, options) => lambda(async () => (await handle(), "done"), options),
};

/** The reasons of `onUnavailable`, and of a wait. */
const CASES = (["reject", "proceed"] as const).flatMap((onUnavailable) =>
  [0, 5_000].map((waitMs) => ({ onUnavailable, waitMs }))
);

async function problemOf(url: string): Promise<[status: number, title: string]> {
  const response = await fetch(url);
  const text = await response.text();
  return [response.status, text.startsWith("{") ? JSON.parse(text).title : text];
}

for (const [name, serve] of Object.entries(SERVERS)) {
  Deno.test(`${name}() answers 503 and never runs the handler when its lock was disposed`, async () => {
    for (const options of CASES) {
      const locks = new MemoryLock();
      let handled = 0;
      const server = await serve(() => void handled++, options)(locks);
      try {
        await locks[Symbol.asyncDispose]();
        const answers = [await problemOf(server.url), await problemOf(server.url)];
        const refused = [503, "Lock service unavailable"];
        assertEquals([answers, handled], [[refused, refused], 0], JSON.stringify(options));
      } finally {
        await server.stop();
      }
    }
  });

  Deno.test(`${name}() answers 503 and never runs the handler when its lock is disposed during the wait`, async () => {
    for (const onUnavailable of ["reject", "proceed"] as const) {
      const locks = new MemoryLock({ disposeTimeoutMs: 50 }); // the lease below is never released
      let handled = 0;
      const options = { onUnavailable, waitMs: CONDITION_BOUND_MS };
      const server = await serve(() => void handled++, options)(locks);
      try {
        await locks.acquire("key");
        const asking = problemOf(server.url);
        await waitUntil("it waits", async () => (await locks.query("key")).waiterCount === 1);
        await locks[Symbol.asyncDispose]();
        assertEquals([await asking, handled], [[503, "Lock service unavailable"], 0]);
      } finally {
        await server.stop();
      }
    }
  });

  Deno.test(`${name}() answers 503 when its lease ends as "disposed" while the handler runs`, async () => {
    // As the strategies will end a lease: the reason is not in the types yet.
    const loss = new LeaseLost("key", "disposed" as LeaseLostError["reason"]);
    await using locks = new MemoryLock();
    const ended = new AbortController();
    const disposed = withLeases(locks, (lease) =>
      Object.defineProperties(lease, {
        signal: { get: () => ended.signal },
        remainingMs: { get: () => ended.signal.aborted ? 0 : Infinity },
        throwIfLost: { value: () => ended.signal.throwIfAborted() },
        // A lock that is being disposed renews no lease.
        renew: {
          value: () => Promise.reject(new DOMException("It was disposed", "InvalidStateError")),
        },
      }));
    const options = { onUnavailable: "proceed" as const };
    const server = await serve(() => ended.abort(loss), options)(disposed);
    try {
      assertEquals(await problemOf(server.url), [503, "Lease lost"]);
    } finally {
      await server.stop();
    }
  });
}
