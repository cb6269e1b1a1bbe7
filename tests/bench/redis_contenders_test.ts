import { assert, assertEquals } from "@std/assert";
import { contenderOf, LOCKS, SETTINGS } from "../../bench/contenders/all.ts";
import { contentionOf, gather } from "../../bench/library/contention.ts";
import { idOf } from "../../bench/library/contender.ts";
import { readServer, serverCost } from "../../bench/library/meters.ts";
import { sharesOf, startFleet } from "../../bench/processes/contention.ts";
import { startRedis } from "../../testing/servers/redis.ts";

const CYCLES = 3;

Deno.test("each contender for Redis excludes a second holder, and its commands are counted", async () => {
  await using server = await startRedis();
  for (const contender of LOCKS) {
    assertEquals(contenderOf(idOf(contender)), contender);
    await using open = await contender.open(server.url, SETTINGS);
    await (await open.acquire("warm-up")).release();
    const before = await readServer(server.command);
    for (let i = 0; i < CYCLES; i++) await (await open.acquire("n")).release();
    const { commands } = serverCost(before, await readServer(server.command), contender.sends);
    assertEquals(commands, 2 * CYCLES, idOf(contender));
    const hold = await open.acquire("n");
    let isReleased = false;
    const waiting = open.acquire("n").then((next) => {
      assert(isReleased, `${idOf(contender)} granted a lock that was held`);
      return next;
    });
    await server.command("PING");
    isReleased = true;
    await hold.release();
    await (await waiting).release();
  }
});

Deno.test("startFleet() spreads waiters over processes and gathers their grants", async () => {
  assertEquals([sharesOf(10, 4), sharesOf(2, 2), sharesOf(3, 2)], [[2, 2, 3, 3], [1, 1], [1, 2]]);
  await using server = await startRedis();
  await using fleet = startFleet(2, server.url);
  const order = { id: "holdfast/node-redis", name: "n", waiters: 3, holdMs: 0, runMs: 100 };
  const processes = await fleet.contend(2, order);
  const grants = gather(processes);
  assertEquals(new Set(grants.map(({ waiter }) => waiter)), new Set(["0.0", "1.0", "1.1"]));
  const span = [grants[0]!.grantedUs, grants.at(-1)!.grantedUs] as const;
  assert(contentionOf(grants, 3, span).grantsPerSecond > 0);
});
