/** The coordinator in the real node-cron, in several processes. */
import { assert, assertEquals } from "@std/assert";
import { setImmediate as turn } from "node:timers/promises";
import cron, { type RunCoordinator } from "node-cron";
import { runCoordinator } from "../../adapters/node_cron.ts";
import { type LeaseLostError, MemoryLock } from "../../mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { runsByFire, startCronProcess } from "../../testing/adapters/cron_processes.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { say } from "../../testing/processes/figures.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { ENDING_TTL_MS, LONG_BOUND_MS, LONG_TTL_MS, RENEWED_TTL_MS } from "../../testing/time.ts";

const IS_SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
const PROCESSES = IS_SOAK ? 10 : 2;
const FIRES = IS_SOAK ? 300 : 3;
const JOB_MS = 100;

Deno.test("runCoordinator() runs each fire of node-cron once, where the obvious coordinator runs it twice", async () => {
  await using server = await startRedis();
  await using stack = new AsyncDisposableStack();
  const { url } = server;
  const redis = { strategy: "redis", client: "node-redis", url, keyPrefix: "lock:" } as const;
  const spec = { ...redis, ttlMs: LONG_TTL_MS };
  // The last one is late by more than the job takes.
  const processes = Array.from({ length: PROCESSES }, (_, index) =>
    stack.use(startCronProcess({
      ...{ spec, url, jobMs: JOB_MS },
      blockMs: index === PROCESSES - 1 ? 500 : 0,
    })));
  const ours = () => runsByFire(processes, "ours");
  const twice = () => [...runsByFire(processes, "obvious").values()].filter((runs) => runs > 1);
  await waitUntil(
    "enough fires ran, some of them twice with the obvious coordinator",
    () => ours().size >= FIRES && twice().length > 0,
    IS_SOAK ? 2 * FIRES * 1_000 : LONG_BOUND_MS,
  );
  for (const process of processes) assertEquals(await process.finish(), 0);
  const runs = [...ours().values()];
  const once = runs.filter((count) => count === 1).length;
  say(
    `node-cron, ${PROCESSES} processes: ${once} of ${runs.length} fires ran once; with the obvious ` +
      `coordinator ${twice().length} of ${runsByFire(processes, "obvious").size} ran twice or more`,
  );
  assertEquals(runs.filter((count) => count > 1), []);
  // A fire may be missed by all while the machine stalls, and the processes do not begin and end at once.
  if (IS_SOAK) assert(once >= FIRES - 2, `${once} of ${FIRES}`);
  else assert(once > 0);
  const tokens = processes.flatMap(({ reports }) => reports.flatMap(({ token }) => token ?? []));
  assert(tokens.every((token) => /^\d+$/.test(token)), "leaseOf() has the lease of the run");
});

Deno.test("runCoordinator() is a RunCoordinator of node-cron, and rejects in an outage", async () => {
  await using locks = new MemoryLock();
  const coordinator = runCoordinator(locks) satisfies RunCoordinator;
  assertEquals(await coordinator.shouldRun("a task: with colons", 30_000), true);
  assertEquals(await coordinator.shouldRun("a task: with colons", 30_000), false);
  locks.tryAcquire = () => Promise.reject(new Error("an outage"));
  const skipped = await Promise.resolve(coordinator.shouldRun("b", 30_000)).catch(String);
  assertEquals(skipped, "Error: an outage");
  coordinator.onComplete("a task: with colons");
});

Deno.test("runCoordinator() keeps the lock after the run, for node-cron's own time unless keepMs is set", async () => {
  await using locks = new MemoryLock();
  const short = runCoordinator(locks, { keepMs: ENDING_TTL_MS });
  const key = `job:${new Date().toISOString()}`;
  assertEquals(await short.shouldRun(key, LONG_TTL_MS), true);
  assertEquals(short.leaseOf(key)?.isHeld, true);
  short.onComplete(key);
  assertEquals(short.leaseOf(key), undefined);
  const name = key.replace(":", "@");
  await waitUntil("the lock is free", async () => (await locks.query(name)).holders.length === 0);
  const fireMs = Date.parse(key.slice("job:".length));
  await waitUntil("the fire is too old", () => Date.now() - fireMs > ENDING_TTL_MS);
  assertEquals(await short.shouldRun(key, LONG_TTL_MS), false);
  const long = runCoordinator(locks);
  assertEquals(await long.shouldRun(key, LONG_TTL_MS), true);
  long.onComplete(key);
  assertEquals(await long.shouldRun(key, LONG_TTL_MS), false);
});

Deno.test("runCoordinator() ends the lease of a run after maxHoldMs when node-cron never says that it has ended", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("node-redis", server.url);
  const locks = new RedisLock(client);
  const coordinator = runCoordinator(locks, {
    ...{ keepMs: RENEWED_TTL_MS, maxHoldMs: 2 * RENEWED_TTL_MS },
  });
  const started = Promise.withResolvers<string>();
  // A task that is stopped during its random delay neither runs nor completes.
  const task = cron.schedule("* * * * * *", () => {}, {
    name: "report",
    distributed: true,
    maxRandomDelay: 24 * 60 * 60 * 1_000,
    runCoordinator: {
      ...coordinator,
      async shouldRun(key, ttlMs) {
        const isElected = await coordinator.shouldRun(key, ttlMs);
        if (isElected) started.resolve(key);
        return isElected;
      },
    },
  });
  await new Promise((resolve) => task.once("execution:started", resolve));
  const key = await started.promise;
  await turn(); // until the delay has begun
  await task.destroy();
  const { name, signal } = coordinator.leaseOf(key)!;
  await waitUntil("the lock is free", async () => (await locks.query(name)).holders.length === 0);
  assertEquals((signal.reason as LeaseLostError).reason, "max-hold");
  await waitUntil("the run is forgotten", async () => {
    await coordinator.shouldRun("another run", LONG_TTL_MS);
    return coordinator.leaseOf(key) === undefined;
  });
  coordinator.onComplete("another run");
  await locks[Symbol.asyncDispose]();
  await close();
});
