/**
 * An AWS Lambda function that must not run twice at once: it makes the transfers of a list, one by one. A
 * schedule, a queue and an HTTP API may invoke it at the same time, in any number of instances.
 *
 * - Another invocation runs: 409 over HTTP; queue and schedule get an error and retry.
 * - The instance is killed: the lock expires before the invocation would have ended.
 * - It is frozen, and thawed while another invocation runs: `throwIfLost()` throws, and Redis rejects
 *   writes under the old token. (A request to the bank right before cannot be undone: send the transfer's
 *   number with it, so that the bank rejects the second request.)
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

/** The name of the lock, and of the resource that its tokens guard. */
const NAME = "transfers";

const log = (error: unknown) => console.error(String(error));

// One connection per instance, for its whole life. Nothing awaits it here: otherwise an instance could not
// start without Redis, and no invocation would report why.
const client = createClient({ url: env.REDIS_URL ?? "redis://127.0.0.1:6379" }).on("error", log);
client.connect().catch(log);
const redis = nodeRedis(client);
const fenced = fencedRedis(redis);

/** A lock for each invocation, with a TTL that fits into what remains of its time. */
const exclusively = lambdaLock(
  (ttlMs) => new RedisLock(redis, { ttlMs, unavailableAfterMs: 1_000 }),
  { key: NAME, onError: log },
);

/** The function that Lambda calls. */
export const handler = exclusively(async (_event, _context, lease) => {
  let count = 0;
  while (await makeNext(lease)) count++;
  return { statusCode: 200, headers: {}, body: JSON.stringify({ count }) };
});

/** Makes the first transfer that is not made yet; false if there is none. */
async function makeNext(lease: Lease): Promise<boolean> {
  const run = (...command: string[]) => fenced.run(NAME, lease.fencingToken, command);
  const made = Number(await run("GET", "transfers:made")); // also makes Redis refuse earlier leases from now on
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
