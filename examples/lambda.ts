/**
 * An AWS Lambda that must not run twice at once: it makes the transfers that stand in a list, one by
 * one. A schedule, a queue and an impatient human behind an HTTP API may invoke it at the same time, in
 * as many instances as they like.
 *
 * - Another invocation is at it: 409 for the human; queue and schedule get an error and try again.
 * - The instance is killed: the lock frees itself before the invocation would have ended.
 * - It is frozen, and thawed when another one is at it: `throwIfLost()` throws, and Redis refuses what
 *   it would write under its old token. (What the bank was told right before, nobody takes back: give
 *   the bank the transfer's number, so that it refuses the second one.)
 *
 * @module
 */
// deno-lint-ignore-file no-console -- Lambda keeps it as the log
import { env } from "node:process";
import { setTimeout as pause } from "node:timers/promises";
import type { Lease } from "@holdfast/lock";
import { fencedRedis } from "@holdfast/lock/fencing";
import { lambdaLock } from "@holdfast/lock/http/lambda";
import { RedisLock } from "@holdfast/lock/redis";
import { nodeRedis } from "@holdfast/lock/redis/node-redis";
import { createClient } from "redis";

/** The name of the lock, and of what its tokens guard. */
const NAME = "transfers";

const log = (error: unknown) => console.error(String(error));

// Once per instance: the connection lives as long as it does. Nothing waits for it here: without Redis
// an instance could not start, and nobody would be told why.
const client = createClient({ url: env.REDIS_URL ?? "redis://127.0.0.1:6379" }).on("error", log);
client.connect().catch(log);
const redis = nodeRedis(client);
const fenced = fencedRedis(redis);

/** A lock for each invocation, with a TTL that fits into what remains of its time. */
const exclusively = lambdaLock(
  (ttlMs) => new RedisLock(redis, { ttlMs, unavailableAfterMs: 1_000 }),
  { key: NAME, onError: log },
);

/** What Lambda calls. */
export const handler = exclusively(async (_event, _context, lease) => {
  let count = 0;
  while (await makeNext(lease)) count++;
  return { statusCode: 200, headers: {}, body: JSON.stringify({ count }) };
});

/** Makes the first transfer that is not made yet; false if there is none. */
async function makeNext(lease: Lease): Promise<boolean> {
  const run = (...command: string[]) => fenced.run(NAME, lease.fencingToken, command);
  const made = Number(await run("GET", "transfers:made")); // shuts out earlier leases, too
  const transfer = await run("LINDEX", "transfers:list", String(made));
  if (transfer === null) return false;
  lease.throwIfLost();
  await tellBank(String(transfer), lease.signal);
  await run("SET", "transfers:made", String(made + 1));
  return true;
}

/** Stands for a slow request, which stops when the lease is lost. */
async function tellBank(transfer: string, signal: AbortSignal): Promise<void> {
  await pause(20, undefined, { signal });
  await redis.send("RPUSH", ["bank", transfer], "bank");
}
