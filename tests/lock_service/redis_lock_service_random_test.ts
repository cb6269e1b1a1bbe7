import { assertEquals } from "@std/assert";
import { randomOf, seedOf } from "../../testing/processes/random.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS } from "../../testing/time.ts";
import {
  call,
  type ServiceProcess,
  startService,
} from "../../testing/lock_service/lock_service.ts";
import { faultsOf, runClient, type Seen } from "../../testing/lock_service/lock_service_clients.ts";

const ENDS = Deno.env.get("HOLDFAST_SOAK") ? 60 : 4;
const EXPECTED = [200, 404, 409];
const CLIENTS = 6;

/** Kills or closes a server each time that servers have answered some requests, and starts another. */
async function disturb(
  services: ServiceProcess[],
  start: () => Promise<ServiceProcess>,
  random: () => number,
  answers: () => number,
): Promise<void> {
  for (let ends = 0; ends < ENDS; ends++) {
    const enough = answers() + 50 + random() * 100;
    await waitUntil("servers answer", () => answers() >= enough, CONDITION_BOUND_MS);
    const which = Math.floor(random() * services.length);
    const service = services[which]!;
    if (random() < 0.5) await service.kill();
    else await service.finish();
    await service[Symbol.asyncDispose]();
    services[which] = await start();
  }
}

Deno.test("lockRoutes() on two servers never lets two clients hold a lock when servers are killed at random", async () => {
  const seed = seedOf();
  // deno-lint-ignore no-console -- to replay a failed run
  console.log(`HOLDFAST_SEED=${seed}`);
  await using redis = await startRedis();
  const start = () => startService({ redisUrl: redis.url });
  const services = await Promise.all([start(), start()]);
  const seen: Seen = { holds: [], tokens: [], lost: [], statuses: new Map() };
  const holders = () => new Set(seen.tokens.map(({ id }) => id.split(".")[0])).size;
  const answers = () =>
    seen.statuses.entries().reduce((sum, [status, n]) => status === 0 ? sum : sum + n, 0);
  let isOver = false;
  const goesOn = () => !isOver;
  const urls = () => services.map(({ url }) => url);
  try {
    const clients = Array.from({ length: CLIENTS }, (_, i) => {
      const random = randomOf(seed + i);
      // Two principals use each id: it must be useless under the other principal.
      const [as, name] = [["alice", "bob"][i % 2]!, `c${i >> 1}`];
      return runClient({ urls, key: "k", as, name, random, goesOn, seen });
    });
    try {
      await disturb(services, start, randomOf(seed - 1), answers);
      await waitUntil("each status is seen", () => {
        return holders() > 1 && EXPECTED.every((status) => seen.statuses.has(status));
      }, CONDITION_BOUND_MS);
    } finally {
      isOver = true;
      await Promise.all(clients);
    }
    // Whatever happened, every lease expires after its TTL.
    const url = urls()[0]!;
    await waitUntil("the lock is free", async () => !(await call(url, "GET", "/lock/k")).body.held);
  } finally {
    for (const service of services) await service[Symbol.asyncDispose]();
  }
  assertEquals(faultsOf(seen), []);
  const { statuses, tokens } = seen;
  const unexpected = [...statuses.keys()].filter((s) => ![0, 503, ...EXPECTED].includes(s));
  assertEquals(unexpected, []);
  // deno-lint-ignore no-console -- shows how much the run has tested
  console.log(`${tokens.length} tokens received, ${seen.holds.length} holds, statuses`, statuses);
});

Deno.test("faultsOf() finds overlapping holds and tokens that go back or serve two owners", () => {
  const statuses = new Map<number, number>();
  const a = { id: "a", fromMs: 0, untilMs: 100 };
  const b = { id: "b", fromMs: 99, untilMs: 200 };
  assertEquals(faultsOf({ holds: [b, a], tokens: [], lost: [], statuses }).length, 1);
  assertEquals(faultsOf({ holds: [a, { ...b, fromMs: 100 }], tokens: [], lost: [], statuses }), []);
  assertEquals(faultsOf({ holds: [a, { ...b, id: "a" }], tokens: [], lost: [], statuses }), []);
  const one = { id: "a", sentMs: 0, receivedMs: 10, token: 5n };
  const at = { sentMs: 10, receivedMs: 20 };
  const check = (id: string, token: bigint) =>
    faultsOf({ holds: [], tokens: [one, { id, ...at, token }], lost: [], statuses }).length;
  assertEquals([check("a", 5n), check("b", 6n), check("b", 5n), check("a", 4n)], [0, 0, 1, 1]);
  assertEquals(
    faultsOf({ holds: [], tokens: [one, { ...one, id: "b", token: 4n }], lost: [], statuses }),
    [],
  );
});
