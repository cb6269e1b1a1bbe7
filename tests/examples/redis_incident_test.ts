/** The incident of 64 workers on one entity, with real processes on Redis; in the soak also in a browser. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { instrumentLocks } from "../../otel/mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { redisPlace, startProgram } from "../../testing/examples/programs.ts";
import { keepTelemetry } from "../../testing/otel/providers.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { screenshot } from "../../testing/runtime/browser.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

const SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
const WORKERS = 64;
const SIZE = SOAK ? { PROCESSES: "4", WORKERS: "16" } : { PROCESSES: "2", WORKERS: "8" };

Deno.test("examples/incident.ts draws processes that wait for one import, and leads to it", async () => {
  await using place = await redisPlace();
  const dir = `${place.dir}/incident`;
  const sized = { ...place, env: { ...place.env, ...SIZE, HOLD_MS: SOAK ? "3000" : "500" } };
  await using program = startProgram("incident.ts", sized, place.env.HOLDFAST_URL!, dir);
  assertEquals(await program.ended, 0);
  const file = `${dir}/incident.html`;
  const html = Deno.readTextFileSync(file);
  const calls = Number(SIZE.PROCESSES) * Number(SIZE.WORKERS) + 1;
  assertMatch(
    html,
    new RegExp(`Recorded processes: ${Number(SIZE.PROCESSES) + 1}; calls: ${calls}\\.`),
  );
  assertMatch(html, /worker-\d waited [\d.]+ m?s for entity:7, most of it behind bulk-import/);
  assertEquals(html.split('class="handoff"').length - 1, calls - 1);
  if (!SOAK) return;
  const [light, dark] = await Promise.all([screenshot(file, "light"), screenshot(file, "dark")]);
  assertEquals([light.complaints, dark.complaints], [[], []]);
  assert(light.bytes > 20_000 && dark.bytes > 20_000, "the pictures are not empty");
  assert(light.hash !== dark.hash);
});

Deno.test("64 workers on one entity of Redis: the gauge shows the queue, the histogram the waits, the span the holder", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("ioredis", server.url);
  const telemetry = keepTelemetry();
  const { tracerProvider, meterProvider, sum, values, spans } = telemetry;
  const nameTemplate = () => "entity:{id}";
  try {
    await using locks = new RedisLock(client, { label: "bulk-import" });
    await using workers = new RedisLock(client, { label: "worker" });
    const slow = await locks.acquire("entity:7");
    using _instrumented = instrumentLocks({ tracerProvider, meterProvider, nameTemplate });
    const work = Array.from({ length: WORKERS }, () => workers.request("entity:7", () => {}));
    const blocked = () =>
      spans.filter(({ attributes }) => attributes["holdfast.holder.label"] === "bulk-import");
    await waitUntil("each wait has its holder", () => blocked().length === WORKERS);
    assertEquals(sum("holdfast.waiting", "entity:{id}"), WORKERS);
    await slow.release();
    await Promise.all(work);
    const waits = values.filter(({ metric, value }) =>
      metric === "holdfast.acquire.duration" && value >= 0.09
    );
    assertEquals([waits.length, sum("holdfast.waiting")], [WORKERS, 0]);
  } finally {
    await close();
  }
});
