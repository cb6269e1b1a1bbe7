/**
 * All faults together, on three servers: leaders are killed or suspended, followers are cut off, worker
 * processes are killed or suspended, and waiters time out.
 */
import { assertEquals } from "@std/assert";
import { say } from "../../testing/processes/figures.ts";
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
import { CONDITION_BOUND_MS, ENDING_SESSION_MS, scaled } from "../../testing/time.ts";
import { nothingLeft } from "../../testing/zookeeper/ensemble_traces.ts";
import { newRoot } from "../../testing/zookeeper/waiter.ts";

/** The soak runs the full figure. */
const STORM_MS = Deno.env.get("HOLDFAST_SOAK") ? 120_000 : 3_000;
const PROCESSES = 4;
const SESSION_TIMEOUT_MS = ENDING_SESSION_MS;
/**
 * After so many ticks of 100 ms, a follower that is cut off stops serving: longer than its clients'
 * sessions.
 */
const SYNC_LIMIT_TICKS = scaled(40);
const BOUND_MS = CONDITION_BOUND_MS;

const skip = await zooKeeperEnsembleSkip();

/** The running worker processes, and those that were killed. */
class Fleet implements AsyncDisposable {
  readonly all: Worker[] = [];
  readonly live: Worker[];
  readonly #start: (seed: number) => Worker;

  constructor(ensemble: ZooKeeperEnsemble, rootPath: string, seed: number) {
    const { connectString } = ensemble;
    const spec = {
      ...{ strategy: "zookeeper", connectString, rootPath } as const,
      ...{ sessionTimeoutMs: SESSION_TIMEOUT_MS, unavailableAfterMs: BOUND_MS },
    };
    const options = { spec, name: "n", waiters: 3, aborts: true, holdMs: 5 };
    this.#start = (add) => startWorker({ ...options, seed: seed + add });
    this.live = Array.from({ length: PROCESSES }, () => this.add());
  }

  get grants() {
    return this.all.flatMap(({ grants }) => grants);
  }

  add(): Worker {
    const worker = this.#start(this.all.length);
    this.all.push(worker);
    return worker;
  }

  /** Waits until the lock is granted five more times. */
  async goesOn(): Promise<void> {
    const soFar = this.grants.length;
    await waitUntil("the lock is granted again", () => this.grants.length >= soFar + 5, BOUND_MS);
  }

  async [Symbol.asyncDispose]() {
    for (const worker of this.all) await worker[Symbol.asyncDispose]();
  }
}

type Fault = (fleet: Fleet, ensemble: ZooKeeperEnsemble, random: () => number) => Promise<unknown>;

const FAULTS: Readonly<Record<string, Fault>> = {
  async "a killed leader"(fleet, ensemble) {
    const leader = await ensemble.leader();
    await leader.kill();
    await fleet.goesOn();
    await leader.restart();
  },
  // Paces a workload: how long the fault lasts.
  async "a suspended leader"(_fleet, ensemble, random) {
    const leader = await ensemble.leader();
    await leader.pause();
    await pause(random() * SESSION_TIMEOUT_MS * 2);
    await leader.resume();
  },
  // Paces a workload: how long the fault lasts.
  async "a follower that is cut off"(_fleet, ensemble, random) {
    const followers = await ensemble.followers();
    const follower = followers[Math.floor(random() * followers.length)]!;
    ensemble.cutOff(follower);
    await pause(random() * SESSION_TIMEOUT_MS * 3);
    ensemble.rejoin(follower);
  },
  // Paces a workload: how long the fault lasts.
  async "a suspended process"({ live }, _ensemble, random) {
    const worker = live[Math.floor(random() * live.length)]!;
    worker.kill("SIGSTOP");
    await pause(random() * SESSION_TIMEOUT_MS * 2);
    worker.kill("SIGCONT");
  },
  "a killed process"(fleet, _ensemble, random) {
    const index = Math.floor(random() * PROCESSES);
    fleet.live[index]!.kill("SIGKILL");
    fleet.live[index] = fleet.add();
    return Promise.resolve();
  },
};

Deno.test({
  name: "ZooKeeperLock never has two holders, and serves every process, in a storm of faults" +
    (skip ? ` [${skip}]` : ""),
  ignore: skip !== undefined,
  async fn() {
    const seed = seedOf();
    say(`HOLDFAST_SEED=${seed}`);
    const random = randomOf(seed);
    const rootPath = newRoot();
    const options = { canCutOff: true, syncLimitTicks: SYNC_LIMIT_TICKS };
    await using ensemble = await startZooKeeperEnsemble(options);
    await using fleet = new Fleet(ensemble, rootPath, seed);
    await fleet.goesOn();
    const names: string[] = [];
    for (const endMs = performance.now() + STORM_MS; performance.now() < endMs;) {
      const [name, fault] = Object.entries(FAULTS)[Math.floor(random() * 5)]!;
      names.push(name);
      await fault(fleet, ensemble, random);
      await ensemble.ready();
      await fleet.goesOn();
    }
    await waitUntil("each process is served", () => {
      return fleet.live.every(({ grants }) => grants.length > 0);
    }, BOUND_MS);
    const codes = await Promise.all(fleet.live.map((worker) => worker.finish()));
    assertEquals(codes, fleet.live.map(() => 0));
    assertEquals(overlaps(fleet.grants), 0, `overlaps; ${names.join(", ")}`);
    assertEquals(tokenInversions(fleet.grants), 0, "tokens should grow in the order of the grants");
    say(`${names.length} faults, ${fleet.grants.length} grants: 0 overlaps`);
    await nothingLeft(ensemble.members, rootPath);
  },
});
