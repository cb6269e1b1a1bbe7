/**
 * A route handler of Next.js, as `app/orders/[id]/route.ts`: ships an order, one request at a time in all
 * processes. It must run in Next's Node.js runtime (the default): edge runtimes have no files and no TCP.
 *
 * @module
 */
import { FileLock } from "@holdfast/lock/file"; // on Node it needs koffi; or RedisLock
import { fetchLock } from "@holdfast/lock/http";
import { setTimeout as pause } from "node:timers/promises";

const locks = new FileLock(process.env.LOCK_DIR === undefined ? {} : { dir: process.env.LOCK_DIR });

/** The key is made of the validated id, not of the URL: an order has many URLs, but one lock. */
function key({ url }: Request): string {
  const path = decodeURIComponent(new URL(url).pathname);
  const id = /^\/orders\/([1-9][0-9]*)\/?$/.exec(path)?.[1];
  if (id === undefined) throw Object.assign(new Error("No such order"), { statusCode: 404 });
  return `orders:${id}`;
}

/** Handles `POST /orders/42`. */
export const POST = fetchLock(locks, { key, waitMs: 5_000 })(
  async (_request, lease, { params }: { params: Promise<{ id: string }> }) => {
    const startMs = Date.now();
    await pause(20, undefined, { signal: lease.signal }); // throws if the lease is lost
    const { id } = await params;
    return Response.json({
      id,
      token: String(lease.fencingToken),
      held: [startMs, Date.now()],
    });
  },
);
