/**
 * Thousands of calls in real processes that wait for one lock.
 */
import { assertEquals, assertLess, assertLessOrEqual } from "@std/assert";
import { delayText } from "../../testing/load/bystander.ts";
import { lateGrants, type Line, tally } from "../../testing/load/waiting_lines.ts";
import { openScene, type Scene } from "../../testing/load/scene.ts";
import { say } from "../../testing/processes/figures.ts";
import { nothingLasts, nothingLeft } from "../../testing/redis/traces.ts";
import { scaled } from "../../testing/time.ts";

/** The soak runs the full figure. */
const WAITERS = Deno.env.get("HOLDFAST_SOAK") ? 10_000 : 1_000;
const CALLS = WAITERS.toLocaleString("en");
/** Fewer where connections are cut or processes are killed: the orderly line shows the scale. */
const DISTURBED = Deno.env.get("HOLDFAST_SOAK") ? 10_000 : 400;
/** On a quiet machine 10,000 calls wait within 3 s, and a bystander waits for 100 ms at most. */
const QUEUED_BOUND_MS = scaled(30_000);
const PING_BOUND_MS = scaled(2_000);
/** How many scripts a process may send after a gap: its one ask, and some more. */
const SCRIPTS_AFTER_GAP = 8;
/** How often in ms the process of the first waiter asks meanwhile; the others less often. */
const HEAD_POLL_MS = 500;

const CLIENTS = ["node-redis", "ioredis"] as const;

/** Asserts that all calls of these processes were granted the lock, in order within each process. */
function allGranted({ order }: Scene, lines: readonly Line[]): string {
  const grants = lines.flatMap((line) => line.grants);
  assertEquals(tally(lines.flatMap((line) => line.rejections)), "none");
  assertEquals(grants.length, lines.reduce((sum, { waiters }) => sum + waiters, 0));
  assertEquals(new Set(grants.map(({ token }) => token)).size, grants.length);
  assertEquals(grants.filter(({ isValid }) => !isValid), []);
  for (const line of lines) assertEquals(lateGrants(order, line.grants), 0, "within a process");
  return `${grants.length} granted, ${lateGrants(order, grants)} out of order`;
}

/** Asserts that a bystander was not kept waiting for long, but for a stall of the machine. Returns a line for the log. */
async function pings({ bystander }: Scene, when: string): Promise<string> {
  const delays = await bystander.delays();
  assertLess(delays.secondMs, PING_BOUND_MS);
  assertLess(delays.worstMs, 5 * PING_BOUND_MS); // no stall is that long
  return `${when}, ${delayText(delays)}`;
}

async function finished(lines: readonly Line[]): Promise<void> {
  const codes = await Promise.all(lines.map((line) => line.finish()));
  assertEquals(codes, lines.map(() => 0));
}

for (const [i, processes] of [1, 4].entries()) {
  Deno.test(`RedisLock grants ${CALLS} calls in ${processes} processes the lock in order`, async () => {
    await using scene = await openScene({ waiters: WAITERS, processes, client: CLIENTS[i]! });
    const { server, lines, order, queuedMs } = scene;
    say(`${CALLS} in ${processes} wait after ${Math.round(queuedMs)} ms`);
    assertEquals(tally(lines.flatMap((line) => line.rejections)), "none");
    assertEquals(order.length, WAITERS);
    assertLess(queuedMs, QUEUED_BOUND_MS);
    await scene.settled();
    say(await pings(scene, "while they line up"));
    const startMs = performance.now();
    await scene.release();
    await finished(lines);
    say(`all were granted after ${Math.round(performance.now() - startMs)} ms more`);
    say(`${allGranted(scene, lines)}; ${await pings(scene, "meanwhile")}`);
    assertEquals(lateGrants(order, lines.flatMap((line) => line.grants)), 0);
    await scene.end();
    await nothingLeft(server);
  });
}

Deno.test(`RedisLock grants ${DISTURBED.toLocaleString("en")} calls the lock when all subscriptions are cut, and again halfway`, async () => {
  await using scene = await openScene({ waiters: DISTURBED, processes: 4, client: "node-redis" });
  const { server: { command }, server, lines } = scene;
  await scene.settled();
  const [before, sinceMs] = [await scene.scripts(), performance.now()];
  await command("CLIENT", "KILL", "TYPE", "pubsub");
  await scene.listening();
  await scene.settled();
  const scripts = await scene.scripts() - before;
  say(`after the cut ${scripts} scripts; ${await pings(scene, "until then")}`);
  const polls = (performance.now() - sinceMs) / HEAD_POLL_MS;
  assertLessOrEqual(scripts, lines.length * (SCRIPTS_AFTER_GAP + polls));
  await scene.release();
  await scene.granted(DISTURBED / 2);
  await command("CLIENT", "KILL", "TYPE", "pubsub");
  await finished(lines);
  say(`${allGranted(scene, lines)}; ${await pings(scene, "meanwhile")}`);
  await scene.end();
  await nothingLeft(server);
});

Deno.test(`RedisLock grants the lock to all survivors of ${DISTURBED.toLocaleString("en")} calls when half of the processes are killed`, async () => {
  await using scene = await openScene({ waiters: DISTURBED, processes: 4, client: "node-redis" });
  const { server, lines } = scene;
  await scene.settled();
  await scene.release();
  await scene.granted(DISTURBED / 4);
  const [dead, survivors] = [lines.slice(0, 2), lines.slice(2)];
  for (const line of dead) line.kill("SIGKILL");
  await finished(survivors);
  say(`${allGranted(scene, survivors)}; ${await pings(scene, "meanwhile")}`);
  await scene.end();
  await nothingLasts(server);
});
