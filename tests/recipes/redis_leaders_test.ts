/** Leaders in several processes, under kills, freezes and partitions. */
import { assert, assertEquals } from "@std/assert";
import { say } from "../../testing/processes/figures.ts";
import { randomFrom } from "../../testing/processes/random.ts";
import {
  leaderlessMs,
  outOfOrder,
  overlaps,
  startCandidate,
  termsOf,
} from "../../testing/recipes/candidates.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { ENDING_TTL_MS } from "../../testing/time.ts";

const IS_SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
const CANDIDATES = IS_SOAK ? 5 : 3;
/** The soak adds faults at random until its time is over. */
const SOAK_MS = IS_SOAK ? 3_600_000 : 0;
const FAULTS = ["freeze", "partition", "kill"] as const;

Deno.test("lead() has never two leaders with a valid lease under kills, freezes and partitions", async () => {
  const random = randomFrom("leaders");
  await using server = await startRedis();
  await using stack = new AsyncDisposableStack();
  const start = () => {
    const proxy = stack.use(startProxy(server));
    const url = `redis://${proxy.hostname}:${proxy.port}`;
    const spec = { strategy: "redis", client: "node-redis", url, keyPrefix: "lock:" } as const;
    const process = stack.use(startCandidate({ spec: { ...spec, ttlMs: ENDING_TTL_MS } }));
    return { proxy, process };
  };
  const all = Array.from({ length: CANDIDATES }, start);
  let alive = [...all];
  const leader = () => alive.find(({ process }) => process.reports.at(-1)?.what === "claims");
  const other = async (than: (typeof all)[number]) => {
    await waitUntil("another process leads", () => leader() !== undefined && leader() !== than);
  };
  const endMs = performance.now() + SOAK_MS;
  const faults: string[] = [];
  while (faults.length < FAULTS.length || performance.now() < endMs) {
    await waitUntil("a process leads", () => leader() !== undefined);
    await pause(random() * (IS_SOAK ? 3_000 : 100)); // Paces a workload: a fault at any moment
    const victim = leader();
    if (victim === undefined) continue;
    const fault = FAULTS[faults.length] ?? FAULTS[Math.floor(random() * FAULTS.length)]!;
    faults.push(fault);
    if (fault === "freeze") {
      victim.process.kill("SIGSTOP");
      alive = alive.filter((each) => each !== victim);
      await other(victim);
      victim.process.kill("SIGCONT");
      alive.push(victim);
      await waitUntil("it waits again", () => victim.process.reports.at(-1)?.what === "waiting");
    } else if (fault === "partition") {
      victim.proxy.blackHole("both");
      await waitUntil(
        "it is told",
        () =>
          victim.process.reports.some(({ what }, i) => what === "lost" && i > 0) &&
          victim.process.reports.at(-1)?.what !== "claims",
      );
      await other(victim);
      victim.proxy.heal();
    } else {
      victim.process.kill("SIGKILL");
      alive = alive.filter((each) => each !== victim);
      const fresh = start();
      all.push(fresh);
      alive.push(fresh);
    }
  }
  await waitUntil("a process leads", () => leader() !== undefined);
  for (const { process } of alive) assertEquals(await process.finish(), 0);
  const histories = all.map(({ process }) => process.reports);
  const terms = termsOf(histories);
  say(
    `lead(), ${CANDIDATES} candidates, ${faults.length} faults, TTL ${ENDING_TTL_MS} ms: ` +
      `${terms.length} terms, ${Math.round(leaderlessMs(terms))} ms without a leader`,
  );
  assert(terms.length > FAULTS.length, "each fault must end a term");
  assertEquals(overlaps(terms), []);
  assertEquals(histories.flatMap(outOfOrder), []);
});
