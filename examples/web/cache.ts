/**
 * A cache that only one request refills, even if many requests in many processes find it out of date:
 * `deno run -A examples/web/cache.ts`, then `curl localhost:8000`.
 *
 * The lock only saves work here. So if the lock service is out of reach, or the lease is lost, each process
 * refills the cache without a lock.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { tmpdir } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { type DistributedLock, LeaseLostError, LockUnavailableError } from "@holdfast/lock";
import { openLock } from "@holdfast/lock/open";
import { FencedStore } from "../fenced_store.ts";

const USAGE = `Serves a report that takes long to make, from a cache that all processes share.
The locks are in files of this user, or where HOLDFAST_URL says.

  --port N     the port to listen on (8000 by default, 0 for any free port)
  --db FILE    the file of the cache (in the temporary directory by default)
  --fresh-ms N how long a report stays fresh, in ms (10000 by default)`;

/** Returns the cached value. If it is missing or out of date, calls `make` under the lock first. */
export async function cached(
  { store, locks, freshMs }: { store: FencedStore; locks: DistributedLock; freshMs: number },
  key: string,
  make: (signal?: AbortSignal) => Promise<string>,
): Promise<string> {
  const read = () => {
    const { body, madeMs } = JSON.parse(store.read(key)?.value ?? `{"madeMs":0}`);
    return Date.now() - madeMs < freshMs ? body as string : null;
  };
  const fresh = read();
  if (fresh !== null) return fresh; // the usual case: no lock needed
  try {
    return await locks.request(`cache:${key}`, async (lease) => {
      const refilled = read(); // another process refilled it while we waited
      if (refilled !== null) return refilled;
      const body = await make(lease.signal).catch((error) => {
        lease.throwIfLost(); // the reason why its signal has ended the work
        throw error;
      });
      store.write(key, JSON.stringify({ body, madeMs: Date.now() }), lease.fencingToken);
      return body;
    });
  } catch (error) {
    if (error instanceof LockUnavailableError || error instanceof LeaseLostError) {
      return await make();
    }
    throw error;
  }
}

const { values } = parseArgs({
  options: {
    port: { type: "string", default: "8000" },
    db: { type: "string", default: `${tmpdir()}/holdfast-cache.db` },
    "fresh-ms": { type: "string", default: "10000" },
    help: { type: "boolean" },
  },
});
if (values.help) {
  console.log(USAGE);
  Deno.exit(0);
}
using store = new FencedStore(values.db);
await using locks = await openLock(Deno.env.get("HOLDFAST_URL") ?? "file:");
const cache = { store, locks, freshMs: Number(values["fresh-ms"]) };
const server = Deno.serve({
  port: Number(values.port),
  onListen: ({ port }) => console.log(`Listening on http://localhost:${port}`),
}, async () =>
  new Response(
    await cached(cache, "report", async (signal) => {
      console.log("refilled");
      await pause(300, undefined, signal && { signal });
      return `A report, made at ${new Date().toISOString()}\n`;
    }),
  ));
Deno.addSignalListener("SIGTERM", () => server.shutdown());
await server.finished;
