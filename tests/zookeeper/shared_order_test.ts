/**
 * Readers and writers in several processes: first come, first served.
 */
import { grantsInOrder, writerAmongReaders } from "../../testing/load/mixed_order.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";
import { LONG_SESSION_MS } from "../../testing/time.ts";
import { newRoot } from "../../testing/zookeeper/waiter.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";

const IS_SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
const GRANTS = 20_000;
const WRITERS = 200;
const SEED = Number(Deno.env.get("HOLDFAST_SEED") ?? 20_261_124);

/** Sessions outlive the pauses of a busy machine: a waiter whose session is over enters the queue anew. */
function callsOf({ connectString }: ZooKeeperServer) {
  const place = { connectString, rootPath: newRoot(), sessionTimeoutMs: LONG_SESSION_MS };
  return { spec: { strategy: "zookeeper", ...place } as const, name: "n", seed: SEED };
}

Deno.test({
  name: "ZooKeeperLock grants the lock in order when readers and writers are in several processes" +
    (IS_SOAK ? "" : " [soak only]"),
  ignore: !IS_SOAK,
  async fn() {
    await using server = await startZooKeeper();
    const modes = [{}, { mode: "shared" }, { mode: "shared" }] as const;
    await grantsInOrder({ ...callsOf(server), modes }, GRANTS);
  },
});

Deno.test({
  name: "ZooKeeperLock lets a writer in among constant readers when those ahead of it have left" +
    (IS_SOAK ? "" : " [soak only]"),
  ignore: !IS_SOAK,
  async fn() {
    await using server = await startZooKeeper();
    const calls = callsOf(server);
    const { connectString, ...options } = calls.spec;
    await using lock = new ZooKeeperLock(connectString, {
      rootPath: options.rootPath,
      sessionTimeoutMs: options.sessionTimeoutMs,
    });
    await writerAmongReaders(calls, lock, WRITERS);
  },
});
