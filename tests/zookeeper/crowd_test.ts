/**
 * Many waiters for one lock: how many requests they need, and whether they are all served.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { say } from "../../testing/processes/figures.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";
import { nothingLeft } from "../../testing/zookeeper/leaks.ts";
import { newRoot } from "../../testing/zookeeper/waiter.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";

/** The soak runs the full figure. */
const WAITERS = Deno.env.get("HOLDFAST_SOAK") ? 5_000 : 1_000;

/** The number of packets that the server has received from all clients. */
async function packetsAt({ fourLetterWord }: ZooKeeperServer): Promise<number> {
  return Number(/^Received: (\d+)$/m.exec(await fourLetterWord("srvr"))![1]);
}

Deno.test("ZooKeeperLock queues many waiters of one instance with few requests, and rejects none", async () => {
  await using server = await startZooKeeper();
  const locks = new ZooKeeperLock(server.connectString, { rootPath: newRoot() });
  const held = await locks.acquire("n");
  const before = await packetsAt(server);
  const order: number[] = [];
  const waiting = new Set<number>();
  const calls = Array.from({ length: WAITERS }, async (_, i) => {
    const lease = await locks.acquire("n", { onWait: () => void waiting.add(i) });
    order.push(i);
    return await lease.release();
  });
  await waitUntil("all wait", () => waiting.size === WAITERS, 60_000);
  // One for each znode: that of a waiter serves the waiter itself and the next one.
  const watches = `Total watches:${WAITERS + 1}`;
  const allWatch = async () => (await server.fourLetterWord("wchs")).includes(watches);
  await waitUntil("all have set their watches", allWatch, 60_000);
  const perWaiter = (await packetsAt(server) - before) / WAITERS;
  const idleFrom = await packetsAt(server);
  await pause(5_000);
  const idle = (await packetsAt(server) - idleFrom) / 5;
  held.throwIfLost();
  const handingOver = await packetsAt(server);
  assertEquals(await held.release(), true);
  const released = await Promise.all(calls);
  const perHandoff = (await packetsAt(server) - handingOver) / WAITERS;
  say(
    `${WAITERS} waiters: ${perWaiter.toFixed(2)} packets each, ${
      idle.toFixed(1)
    } a second while idle, ` +
      `${perHandoff.toFixed(2)} per handoff`,
  );
  assertEquals(released.filter((isOurs) => !isOurs), []);
  assertEquals(order, order.toSorted((a, b) => a - b), "waiters should be served in order");
  assert(perWaiter <= 4, `${perWaiter} packets per waiter`);
  assert(idle <= 5, `${idle} packets a second while idle`);
  assert(perHandoff <= 1.5, `${perHandoff} packets per handoff`);
  await locks[Symbol.asyncDispose]();
  await nothingLeft(server);
});
