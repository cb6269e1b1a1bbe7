import { assert, assertEquals } from "@std/assert";
import { RuntimeApi } from "../../testing/http/lambda_runtime.ts";
import { startReporter } from "../../testing/processes/child.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { scaled } from "../../testing/time.ts";

const INSTANCE = new URL("../../testing/examples/testdata/example_instance.ts", import.meta.url);
const TIMEOUT_MS = scaled(60_000);
/** How many transfers wait at most: a slow machine must make them in the time of one invocation. */
const MOST_LEFT = 60;
const HTTP_EVENT = { version: "2.0", requestContext: { http: { method: "POST" } } };
const SCHEDULE = { "source": "aws.events", "detail-type": "Scheduled Event" };

async function startInstance(redisUrl: string, stack: AsyncDisposableStack) {
  const api = stack.use(new RuntimeApi(TIMEOUT_MS));
  const argument = { url: api.url };
  const process = stack.use(startReporter(INSTANCE, argument, { REDIS_URL: redisUrl }));
  await waitUntil("an instance is ready", () => process.reports.length > 0);
  const invoke = async (event: unknown) => {
    const { ok, body } = await api.invoke(event);
    return { ok, value: JSON.parse(body) };
  };
  return { invoke, finish: process.finish };
}

/** Two instances of the example. */
async function open() {
  await using stack = new AsyncDisposableStack();
  const redis = stack.use(await startRedis());
  const instances = await Promise.all([0, 1].map(() => startInstance(redis.url, stack)));
  const owned = stack.move();
  return { redis, instances, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

Deno.test("examples/lambda.ts does not run twice at once", async () => {
  await using stage = await open();
  const { redis: { command }, instances: [first, second] } = stage;
  const transfers: string[] = [];
  const push = async (count: number) => {
    const more = Array.from({ length: count }, (_, i) => `transfer ${transfers.length + i}`);
    transfers.push(...more);
    await command("RPUSH", "transfers:list", ...more);
  };
  await push(MOST_LEFT);
  const running = first!.invoke(HTTP_EVENT);
  await waitUntil(
    "the first invocation has begun",
    async () => await command("LLEN", "bank") !== 0,
  );
  let isRefused = false;
  const feeding = (async () => { // keeps the first invocation busy until the second one is refused
    for (; !isRefused; await pause(15)) {
      const left = transfers.length - Number(await command("LLEN", "bank"));
      if (left < MOST_LEFT) await push(MOST_LEFT - left);
    }
  })();
  const human = await second!.invoke(HTTP_EVENT);
  const schedule = await second!.invoke(SCHEDULE);
  isRefused = true;
  await feeding;
  assertEquals(human.value.statusCode, 409);
  const { reason, retryable } = schedule.value;
  assertEquals([schedule.ok, reason, retryable], [false, "busy", true]);
  for (let { ok } = schedule; !ok; await pause(50)) ({ ok } = await second!.invoke(SCHEDULE));
  const { value } = await running;
  assertEquals([value.statusCode, JSON.parse(value.body)], [200, { count: transfers.length }]);
  assertEquals(await command("LRANGE", "bank", 0, -1), transfers, "each once, in order");
  assertEquals(await command("EXISTS", "lock:transfers"), 0);
  assert(await first!.finish() === 0 && await second!.finish() === 0);
});

Deno.test("examples/lambda.ts makes each transfer once when two instances are invoked all the time", async () => {
  await using stage = await open();
  const { redis: { command }, instances } = stage;
  const transfers = Array.from({ length: 60 }, (_, i) => `transfer ${i}`);
  let counted = 0;
  let isDone = false;
  const callers = instances.map(async ({ invoke }) => {
    while (!isDone) {
      const { value } = await invoke(HTTP_EVENT);
      if (value.statusCode === 200) counted += JSON.parse(value.body).count;
    }
  });
  for (let i = 0; i < transfers.length; i += 10) {
    await command("RPUSH", "transfers:list", ...transfers.slice(i, i + 10));
    await waitUntil("most are made", async () => {
      return Number(await command("GET", "transfers:made")) > i + 5;
    });
  }
  await waitUntil(
    "all transfers are made",
    async () => await command("GET", "transfers:made") === "60",
  );
  isDone = true;
  await Promise.all(callers);
  assertEquals(await command("LRANGE", "bank", 0, -1), transfers);
  assertEquals(counted, transfers.length);
});

Deno.test("examples/lambda.ts answers 503 when it starts without Redis, and works once Redis runs", async () => {
  await using stack = new AsyncDisposableStack();
  const redis = await startRedis();
  stack.defer(() => redis[Symbol.asyncDispose]());
  await redis.kill();
  const { invoke, finish } = await startInstance(redis.url, stack);
  assertEquals((await invoke(HTTP_EVENT)).value.statusCode, 503);
  const { ok, value: { reason, cause } } = await invoke(SCHEDULE);
  assertEquals([ok, reason, cause], [false, "unavailable", "LockUnavailableError"]);
  await redis.restart();
  await waitUntil("it works", async () => (await invoke(HTTP_EVENT)).value.statusCode === 200);
  assertEquals(await finish(), 0);
});
