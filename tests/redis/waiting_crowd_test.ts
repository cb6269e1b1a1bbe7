/**
 * Crowds that wait while the server loses its data: how long it takes until all are served, beside a run
 * without a fault. Only in a soak.
 */
import { assertEquals, assertLessOrEqual } from "@std/assert";
import { openScene } from "../../testing/load/scene.ts";
import { grantsWhenAllAreBack, lateGrants } from "../../testing/load/waiting_lines.ts";
import { say } from "../../testing/processes/figures.ts";
import type { RedisServer } from "../../testing/servers/redis.ts";
import { scaled } from "../../testing/time.ts";

const WAITERS = [100, 1_000, 10_000];
/** How long it takes at most until a process notices by itself that the server has lost its queue. */
const HEARTBEAT_MS = 2_000;

const isSoak = Deno.env.get("HOLDFAST_SOAK") !== undefined;
const suffix = isSoak ? "" : " [skipped: soak only]";

const LOSSES = {
  "FLUSHALL": async ({ command }: RedisServer) => void await command("FLUSHALL"),
  "a restart without data": (server: RedisServer) => server.restart(),
};

/** How long it takes to serve all waiters once the lock is free; `lose` frees it by losing all data. */
async function serveScene(
  waiters: number,
  processes: number,
  lose?: (server: RedisServer) => Promise<void>,
): Promise<{ tookMs: number; outageMs: number; late: number; lateAtLast: number }> {
  await using scene = await openScene({ waiters, processes, client: "ioredis" });
  await scene.settled();
  const startMs = performance.now();
  await (lose === undefined ? scene.release() : lose(scene.server));
  const outageMs = lose === undefined ? 0 : performance.now() - startMs;
  await scene.granted(waiters);
  const tookMs = performance.now() - startMs;
  for (const line of scene.lines) {
    assertEquals(lateGrants(scene.order, line.grants), 0, "within a process");
  }
  const grants = scene.lines.map((line) => line.grants);
  const late = lateGrants(scene.order, grants.flat());
  const lateAtLast = lateGrants(scene.order, grantsWhenAllAreBack(grants));
  await Promise.all(scene.lines.map((line) => line.finish()));
  await scene.end();
  return { tookMs, outageMs, late, lateAtLast };
}

for (const processes of [1, 4]) {
  for (const waiters of WAITERS) {
    const crowd = `${waiters.toLocaleString("en")} calls in ${processes} process(es)`;
    Deno.test({
      name: `RedisLock serves ${crowd} after a loss within 2 × the time without it${suffix}`,
      ignore: !isSoak,
      async fn() {
        const base = await serveScene(waiters, processes);
        for (const [loss, lose] of Object.entries(LOSSES)) {
          const { tookMs, outageMs, late, lateAtLast } = await serveScene(waiters, processes, lose);
          const times = [tookMs, base.tookMs, outageMs].map(Math.round);
          say(
            `${crowd}, ${loss}: ${times[0]} ms, without it ${times[1]} ms; outage ${
              times[2]
            } ms; ` +
              `${late} out of order, ${lateAtLast} of them after all processes had noticed`,
          );
          assertLessOrEqual(tookMs, 2 * base.tookMs + outageMs + scaled(HEARTBEAT_MS));
          assertEquals(lateAtLast, 0);
        }
      },
    });
  }
}
