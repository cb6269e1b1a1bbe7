/**
 * Redis Cluster: a call while a slot moves, and all keys of its lock are still at the old node.
 */
import { assert, assertEquals } from "@std/assert";
import { RedisLock } from "../../redis/mod.ts";
import type { RedisClientName } from "../../testing/conformance/open_lock.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { keysLeft } from "../../testing/redis/residue.ts";
import { redisClusterSkip, startRedisCluster } from "../../testing/servers/redis_cluster.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS, LONG_TTL_MS } from "../../testing/time.ts";

const CLIENTS: RedisClientName[] = ["node-redis-cluster", "ioredis-cluster"];
const skip = await redisClusterSkip();

async function openLock(clientName: RedisClientName, url: string) {
  const { client, close } = await openRedisClient(clientName, url);
  const lock = new RedisLock(client, {
    ttlMs: LONG_TTL_MS,
    unavailableAfterMs: CONDITION_BOUND_MS,
  });
  return {
    lock,
    async [Symbol.asyncDispose]() {
      await lock[Symbol.asyncDispose]();
      await close();
    },
  };
}

// A script that deletes a key cannot access it again: the old node then refuses in the middle.
async function releaseDuringMove(clientName: RedisClientName): Promise<void> {
  await using cluster = await startRedisCluster();
  const keys = async () =>
    (await Promise.all(cluster.masters.map(({ command }) => keysLeft(command)))).flat();
  {
    await using a = await openLock(clientName, cluster.url);
    await using b = await openLock(clientName, cluster.url);
    const first = await a.lock.acquire("n");
    let waits = false;
    const waiting = b.lock.acquire("n", { onWait: () => void (waits = true) });
    waiting.catch(() => {});
    await waitUntil("the waiter waits", () => waits);
    const source = await cluster.masterOf("lock:n");
    const target = cluster.masters.find((master) => master !== source)!;
    const queue = (await keys()).find((key) => key.includes(":queue:"))!;
    let released: Promise<boolean> | undefined;
    await cluster.moveSlot("lock:n", target, async () => {
      released = first.release();
      released.catch(() => {});
      // The waiter has left the queue: the script was executed, wholly or in part.
      await waitUntil(
        "the queue is empty",
        async () => !(await source.command("KEYS", "*") as string[]).includes(queue),
      );
    });
    assertEquals(await within("the lock is released", released!), true);
    const second = await within("the waiter is granted", waiting);
    assert(second.fencingToken > first.fencingToken);
    assertEquals(await second.release(), true);
  }
  await waitUntil("nothing is left", async () => (await keys()).length === 0);
}

for (const client of CLIENTS) {
  const reason = skip === undefined ? "" : ` [skipped: ${skip}]`;
  Deno.test({
    name:
      `${client}: Lease.release() hands the lock to the only waiter while the slot moves${reason}`,
    ignore: skip !== undefined,
    fn: () => releaseDuringMove(client),
  });
}
