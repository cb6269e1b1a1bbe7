/**
 * Crowds that wait while the server loses its data: how long it takes until all are served, beside a run
 * without a fault. Only in a soak.
 */
import { assertEquals, assertGreater, assertLessOrEqual } from "@std/assert";
import { openScene } from "../../testing/load/scene.ts";
import { QueueLooks } from "../../testing/load/queue_looks.ts";
import { lateGrants } from "../../testing/load/waiting_lines.ts";
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

interface Served {
  readonly tookMs: number;
  readonly outageMs: number;
  readonly late: number;
  /** Of the grants since all waited again: how many, in how many lines, and how many of these out of order. */
  readonly back: number;
  readonly linesBack: number;
  readonly lateWhenBack: number;
}

/** How long it takes to serve all waiters once the lock is free; `lose` frees it by losing all data. */
async function serveScene(
  waiters: number,
  processes: number,
  lose?: (server: RedisServer) => Promise<void>,
): Promise<Served> {
  await using scene = await openScene({ waiters, processes, client: "ioredis" });
  await scene.settled();
  const startMs = performance.now();
  await (lose === undefined ? scene.release() : lose(scene.server));
  const outageMs = lose === undefined ? 0 : performance.now() - startMs;
  await using looks = new QueueLooks(scene.server.command, scene.keys, true);
  await scene.granted(waiters);
  const tookMs = performance.now() - startMs;
  for (const line of scene.lines) {
    assertEquals(lateGrants(scene.order, line.grants), 0, "within a process");
  }
  const grants = scene.lines.map((line) => line.grants);
  const late = lateGrants(scene.order, grants.flat());
  const back = looks.whenAllWait(grants);
  await Promise.all(scene.lines.map((line) => line.finish()));
  await scene.end();
  return {
    ...{ tookMs, outageMs, late, back: back.flat().length },
    linesBack: back.filter(({ length }) => length > 0).length,
    lateWhenBack: lateGrants(scene.order, back.flat()),
  };
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
          const result = await serveScene(waiters, processes, lose);
          const { tookMs, outageMs, late, back, linesBack, lateWhenBack } = result;
          const times = [tookMs, base.tookMs, outageMs].map(Math.round);
          say(
            `${crowd}, ${loss}: ${times[0]} ms, without it ${times[1]} ms; outage ${
              times[2]
            } ms; ` +
              `${late} out of order; of the last ${back}, since all waited again, ${lateWhenBack}`,
          );
          assertLessOrEqual(tookMs, 2 * base.tookMs + outageMs + scaled(HEARTBEAT_MS));
          assertEquals(lateWhenBack, 0);
          if (waiters >= 10_000) assertGreater(linesBack, processes > 1 ? 1 : 0);
        }
      },
    });
  }
}
