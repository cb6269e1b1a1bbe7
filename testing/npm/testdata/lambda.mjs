// Paces a workload: a handler keeps its lock for a moment.
// deno-lint-ignore-file no-console -- this is a script
// A function of AWS Lambda: it adds 1 to a counter in Redis, in two steps that only a lock makes safe.
import { setTimeout as pause } from "node:timers/promises";
import { lambdaLock } from "@holdfast/lock/http/lambda";
import { RedisLock } from "@holdfast/lock/redis";
import { nodeRedis } from "@holdfast/lock/redis/node-redis";
import { createClient } from "redis";

const client = createClient({ url: process.env.REDIS_URL }).on("error", console.error);
client.connect().catch(console.error);
const redis = nodeRedis(client);

export const handler = lambdaLock((ttlMs) => new RedisLock(redis, { ttlMs }), {
  key: (event) => `counter:${event.counter}`,
  waitMs: 300_000,
})(async (event, _context, lease) => {
  const count = Number(await client.get(event.counter));
  await pause(2);
  lease.throwIfLost();
  await client.set(event.counter, String(count + 1));
  return { token: String(lease.fencingToken) };
});

/** Lambda has no such call: it freezes or kills the process. */
export const close = () => client.close();
