/**
 * Many waiters for one lock: how many requests they need, and whether they are all served, also when the
 * server restarts. How the costs grow is in `growth_test.ts`.
 *
 * @module
 */
import { assertEquals, assertLessOrEqual } from "@std/assert";
import { tally } from "../../testing/load/waiting_lines.ts";
import { say } from "../../testing/processes/figures.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { KEPT_SESSION_MS, LONG_BOUND_MS } from "../../testing/time.ts";
import { startZooKeeper } from "../../testing/servers/zookeeper.ts";
import { openCrowd, PacketCounter } from "../../testing/zookeeper/crowd.ts";
import { nothingLeft } from "../../testing/zookeeper/leaks.ts";
import { newRoot } from "../../testing/zookeeper/waiter.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";

const IS_SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
/** The soak runs the full figure. */
const WAITERS = IS_SOAK ? 5_000 : 400;
/** The server needs 0.4 s to start. */
const DOWN_MS = 900;
/**
 * Each waiter sets the watch on its own znode again. A server that is starting may close the first new
 * connection.
 */
const PACKETS_AFTER_RESTART = 2;
/** The listing, the watch on the znode ahead, heartbeats, and checks of the server. */
const PACKETS_PER_PROCESS = 20;

Deno.test("ZooKeeperLock queues many waiters of one instance with few requests, and rejects none", async () => {
  await using server = await startZooKeeper();
  const locks = new ZooKeeperLock(server.connectString, { rootPath: newRoot() });
  const held = await locks.acquire("n");
  const counter = new PacketCounter(server);
  const before = await counter.read();
  const order: number[] = [];
  const waiting = new Set<number>();
  const calls = Array.from({ length: WAITERS }, async (_, i) => {
    const lease = await locks.acquire("n", { onWait: () => void waiting.add(i) });
    order.push(i);
    return await lease.release();
  });
  await waitUntil("all wait", () => waiting.size === WAITERS, LONG_BOUND_MS);
  // The first waiter also watches the holder's znode.
  const watches = `Total watches:${WAITERS + 1}`;
  const allWatch = async () => (await server.fourLetterWord("wchs")).includes(watches);
  await waitUntil("all have set their watches", allWatch, LONG_BOUND_MS);
  const perWaiter = (await counter.read() - before) / WAITERS;
  held.throwIfLost();
  const handingOver = await counter.read();
  assertEquals(await held.release(), true);
  const released = await Promise.all(calls);
  const perHandoff = (await counter.read() - handingOver) / WAITERS;
  say(
    `${WAITERS} waiters: ${perWaiter.toFixed(2)} packets each, ` +
      `${perHandoff.toFixed(2)} per handoff`,
  );
  assertEquals(released.filter((isOurs) => !isOurs), []);
  assertEquals(order, order.toSorted((a, b) => a - b), "waiters should be served in order");
  assertLessOrEqual(perWaiter, 2.1);
  assertLessOrEqual(perHandoff, 1.2);
  await locks[Symbol.asyncDispose]();
  await nothingLeft(server);
});

const CROWDS = IS_SOAK
  ? [[1, 1_500], [1, 5_000], [10, 1_500], [10, 5_000]] as const
  : [[4, 200]] as const;

for (const [processes, waiters] of CROWDS) {
  Deno.test(`ZooKeeperLock keeps the places of ${waiters} waiters in ${processes} processes when the server restarts`, async () => {
    await using crowd = await openCrowd({
      processes,
      waiters,
      sessionTimeoutMs: 3 * KEPT_SESSION_MS,
    });
    const { lines, held } = crowd;
    const queued = await crowd.during(() => crowd.lineUp());
    let downMs = 0;
    const after = await crowd.during(async () => {
      const startMs = performance.now();
      await crowd.restart(DOWN_MS);
      downMs = performance.now() - startMs;
      await crowd.watching();
    });
    say(`The server was down for ${Math.round(downMs)} ms`);
    held.throwIfLost();
    assertEquals(tally(lines.flatMap((line) => line.rejections)), "none");
    assertEquals(lines.flatMap((line) => line.grants), []);
    const drainMs = await crowd.drain();
    say(
      `${waiters} in ${processes}: ${(queued.packets / waiters).toFixed(2)} packets each; ` +
        `after the restart ` +
        `${(after.packets / waiters).toFixed(2)} packets and ` +
        `${Math.round(after.bytes / waiters)} bytes each; ` +
        `${(drainMs / waiters).toFixed(2)} ms per handoff`,
    );
    assertLessOrEqual(
      after.packets,
      PACKETS_AFTER_RESTART * waiters + PACKETS_PER_PROCESS * (processes + 1),
    );
  });
}
