/**
 * First come, first served by sequence number, across processes.
 */
import { assert, assertEquals } from "@std/assert";
import { say } from "../../testing/processes/figures.ts";
import { randomOf, seedOf } from "../../testing/processes/random.ts";
import {
  type Grant,
  inversions,
  overlaps,
  startWorker,
  tokenInversions,
  type Worker,
} from "../../testing/processes/workers.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";
import { LONG_BOUND_MS, scaled } from "../../testing/time.ts";
import { nothingLeft } from "../../testing/zookeeper/ensemble_traces.ts";
import { newRoot } from "../../testing/zookeeper/waiter.ts";

/** The soak runs the full figure. */
const GRANTS = Deno.env.get("HOLDFAST_SOAK") ? 5_000 : 200;
const KILLS = Deno.env.get("HOLDFAST_SOAK") ? 10 : 1;
const PROCESSES = 3;
const WAITERS = 10;
const BOUND_MS = LONG_BOUND_MS;
/** How long in ms the znodes of a killed process block the others. On a busy machine no other session ends. */
const SESSION_TIMEOUT_MS = scaled(5_000);

let server: ZooKeeperServer;

Deno.test.beforeAll(async () => {
  server = await startZooKeeper();
});
Deno.test.afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

interface Fleet extends AsyncDisposable {
  readonly rootPath: string;
  /** The grants of all workers, including killed ones. */
  grants(): Grant[];
  /** Kills a worker, and starts another one. */
  replace(index: number): void;
  /** Waits until all live workers have finished. */
  finish(): Promise<void>;
}

function startFleet(aborts: boolean, seed: number): Fleet {
  const rootPath = newRoot();
  const { connectString } = server;
  const spec = {
    ...{ strategy: "zookeeper", connectString, rootPath } as const,
    sessionTimeoutMs: SESSION_TIMEOUT_MS,
  };
  const all: Worker[] = [];
  const start = () => {
    const options = { name: "n", waiters: WAITERS, aborts, seed: seed + all.length, holdMs: 0 };
    const worker = startWorker({ spec, ...options });
    all.push(worker);
    return worker;
  };
  const live = Array.from({ length: PROCESSES }, start);
  return {
    rootPath,
    grants: () => all.flatMap(({ grants }) => grants),
    replace(index) {
      live[index]!.kill("SIGKILL");
      live[index] = start();
    },
    async finish() {
      for (const code of await Promise.all(live.map((worker) => worker.finish()))) {
        assertEquals(code, 0);
      }
    },
    async [Symbol.asyncDispose]() {
      for (const worker of all) await worker[Symbol.asyncDispose]();
    },
  };
}

async function reach(fleet: Fleet, count: number): Promise<void> {
  await waitUntil(`${count} were granted`, () => fleet.grants().length >= count, BOUND_MS);
}

/**
 * Checks that holders had the lock one at a time, in the order of the queue, and left nothing on the
 * server.
 */
async function check({ rootPath, grants }: Fleet): Promise<void> {
  const all = grants();
  assert(all.length >= GRANTS);
  assertEquals(new Set(all.map(({ token }) => token)).size, all.length);
  assertEquals(overlaps(all), 0, "overlaps");
  assertEquals(tokenInversions(all), 0, "tokens should grow in the order of the grants");
  assertEquals(inversions(all), 0, "no waiter should be overtaken by a later one");
  const waited = all.filter(({ queuedUs }) => queuedUs !== null).length;
  say(`${all.length} grants, ${waited} of them after a wait: 0 overlaps, 0 inversions`);
  assert(waited > all.length / 2, "most should have had to wait");
  await nothingLeft([server], rootPath);
}

Deno.test("ZooKeeperLock serves the waiters of several processes in the order of their arrival", async () => {
  await using fleet = startFleet(false, seedOf());
  await reach(fleet, GRANTS);
  await fleet.finish();
  await check(fleet);
});

Deno.test("ZooKeeperLock keeps the order of waiters when some time out and processes are killed", async () => {
  const seed = seedOf();
  say(`HOLDFAST_SEED=${seed}`);
  const random = randomOf(seed);
  await using fleet = startFleet(true, seed);
  for (let kill = 0; kill < KILLS; kill++) {
    await reach(fleet, GRANTS * (kill + random()) / KILLS);
    fleet.replace(Math.floor(random() * PROCESSES));
  }
  await reach(fleet, GRANTS);
  await fleet.finish();
  await check(fleet);
});
