/**
 * An ensemble whose leader is killed again and again while processes acquire and release one lock.
 */
import { assertEquals } from "@std/assert";
import { nowUs } from "../../testing/processes/machine_clock.ts";
import { median, say } from "../../testing/processes/figures.ts";
import { randomOf, seedOf } from "../../testing/processes/random.ts";
import {
  overlaps,
  startWorker,
  tokenInversions,
  type Worker,
} from "../../testing/processes/workers.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import {
  startZooKeeperEnsemble,
  type ZooKeeperEnsemble,
  zooKeeperEnsembleSkip,
} from "../../testing/servers/zookeeper_ensemble.ts";
import { CONDITION_BOUND_MS, scaled } from "../../testing/time.ts";
import { nothingLeft } from "../../testing/zookeeper/ensemble_traces.ts";
import { newRoot } from "../../testing/zookeeper/waiter.ts";

/** The soak runs the full figure. */
const KILLING_MS = Deno.env.get("HOLDFAST_SOAK") ? 60_000 : 3_000;
const PROCESSES = Deno.env.get("HOLDFAST_SOAK") ? 8 : 4;
const PROGRESS_BOUND_MS = CONDITION_BOUND_MS;

const skip = await zooKeeperEnsembleSkip();

function startWorkers({ connectString }: ZooKeeperEnsemble, rootPath: string): Worker[] {
  const spec = {
    ...{ strategy: "zookeeper", connectString, rootPath } as const,
    sessionTimeoutMs: scaled(4_000),
    // No call must reject during an election, even on a busy machine.
    unavailableAfterMs: PROGRESS_BOUND_MS,
  };
  const options = { spec, name: "n", waiters: 1, aborts: false };
  // One process holds the lock so long that most kills happen while it does.
  return Array.from(
    { length: PROCESSES },
    (_, seed) => startWorker({ ...options, seed, holdMs: seed === 0 ? 300 : 10 }),
  );
}

/** Waits until each process has got the lock after `timeUs`; returns when the first one got it. */
async function allServedAfter(workers: readonly Worker[], timeUs: number): Promise<number> {
  const startsOf = ({ grants }: Worker) =>
    grants.flatMap(({ held }) => held === undefined || held[0] <= timeUs ? [] : [held[0]]);
  await waitUntil(
    "each process is served again",
    () => workers.every((worker) => startsOf(worker).length > 0),
    PROGRESS_BOUND_MS,
  );
  return Math.min(...workers.flatMap(startsOf));
}

/**
 * Kills the leader, and restarts it after all processes were served without it. Returns the first gap
 * in ms.
 */
async function killLeader(ensemble: ZooKeeperEnsemble, workers: readonly Worker[]) {
  const leader = await ensemble.leader();
  await leader.kill();
  const killedUs = nowUs();
  const servedUs = await allServedAfter(workers, killedUs);
  await leader.restart();
  await ensemble.ready();
  return (servedUs - killedUs) / 1_000;
}

// Paces a workload: the time between two kills.
async function rest(random: () => number): Promise<void> {
  await pause(random() * 2_000);
}

Deno.test({
  name: "ZooKeeperLock never has two holders, and keeps the order, when leaders are killed" +
    (skip ? ` [${skip}]` : ""),
  ignore: skip !== undefined,
  async fn() {
    const seed = seedOf();
    say(`HOLDFAST_SEED=${seed}`);
    const random = randomOf(seed);
    const rootPath = newRoot();
    await using ensemble = await startZooKeeperEnsemble();
    const workers = startWorkers(ensemble, rootPath);
    const gapsMs: number[] = [];
    try {
      await allServedAfter(workers, 0);
      for (const endMs = performance.now() + KILLING_MS; performance.now() < endMs;) {
        gapsMs.push(await killLeader(ensemble, workers));
        await rest(random);
      }
      await allServedAfter(workers, nowUs());
      const codes = await Promise.all(workers.map((worker) => worker.finish()));
      assertEquals(codes, workers.map(() => 0));
    } finally {
      for (const worker of workers) await worker[Symbol.asyncDispose]();
    }
    const grants = workers.flatMap(({ grants }) => grants);
    assertEquals(overlaps(grants), 0, "overlaps");
    assertEquals(tokenInversions(grants), 0, "tokens should grow in the order of the grants");
    const counts = workers.map(({ grants }) => grants.length);
    say(
      `${gapsMs.length} leaders killed; ${grants.length} grants, ${
        Math.min(...counts)
      } or more per ` +
        `process; kill to next grant ${median(gapsMs)} ms median, ${Math.max(...gapsMs)} maximum`,
    );
    await nothingLeft(ensemble.members, rootPath);
  },
});
