/**
 * `deno task bench http`: measures our middleware in each framework, in rounds interleaved with the same
 * route that acquires and releases the lock by hand. By hand, the lock is released before the response is
 * sent; our middleware releases it when the response ends. One process, real sockets, a new Redis.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { nodeRedis, type NodeRedisClient } from "../redis/clients/node_redis.ts";
import { RedisLock } from "../redis/mod.ts";
import { createClient } from "redis";
import { startRedis } from "../testing/servers/redis.ts";
import { inTurns, judged, summary, timed } from "./compare.ts";
import { byHand, type Endpoint, ours } from "./http_endpoints.ts";

const ROUNDS = 25;
const WARM_UP_ROUNDS = 5;
const STEPS = 400;
/** The number of concurrent requests: the first argument. */
const CLIENTS = Number(Deno.args[0] ?? 1);
/** The greatest allowed ratio. */
const LIMIT = 1.15;

/** Sends `steps` requests on uncontended locks. */
async function run({ call }: Endpoint, steps: number): Promise<void> {
  let left = steps;
  const client = async (index: number) => {
    for (; left > 0; left--) await call(`order-${index}-${left % 50}`);
  };
  await Promise.all(Array.from({ length: CLIENTS }, (_, index) => client(index)));
}

async function compare(name: string, locks: RedisLock): Promise<boolean> {
  await using mine = await ours[name]!(locks);
  await using least = await byHand[name]!(locks);
  const jobs = [mine, least].map((endpoint) => () => timed(STEPS, (steps) => run(endpoint, steps)));
  await inTurns(WARM_UP_ROUNDS, jobs);
  const rows = await inTurns(ROUNDS, jobs);
  const { us, ratio, least: low, most } = summary(rows, 1);
  const { text, isWithin } = judged(ratio, LIMIT);
  console.log(
    `${name}: ${summary(rows, 0).us.toFixed(0)} µs per request, by hand ${us.toFixed(0)} µs, ` +
      `${text} (${low.toFixed(2)} to ${most.toFixed(2)})`,
  );
  return isWithin;
}

async function main(): Promise<number> {
  await using server = await startRedis();
  const client = createClient({ url: server.url }).on("error", () => {});
  await client.connect();
  await using locks = new RedisLock(nodeRedis(client as unknown as NodeRedisClient));
  const verdicts: boolean[] = [];
  for (const name of Object.keys(ours)) verdicts.push(await compare(name, locks));
  await locks[Symbol.asyncDispose]();
  client.destroy();
  return verdicts.every(Boolean) ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main());
