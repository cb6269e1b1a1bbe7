import { assert, assertEquals } from "@std/assert";
import { randomOf, seedOf } from "../../testing/processes/random.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import {
  call,
  type ServiceProcess,
  startService,
} from "../../testing/lock_service/lock_service.ts";
import { faultsOf, runClient, type Seen } from "../../testing/lock_service/lock_service_clients.ts";

const RUN_MS = Deno.env.get("HOLDFAST_SOAK") ? 60_000 : 3_000;
/** A busy machine may take longer to show all that must be seen. */
const BOUND_MS = RUN_MS + 60_000;
const EXPECTED = [200, 404, 409];
const CLIENTS = 6;

/** Sometimes a server is killed or closed, and started again at its place. */
async function disturb(
  services: ServiceProcess[],
  start: (port: number) => Promise<ServiceProcess>,
  random: () => number,
  goesOn: () => boolean,
): Promise<void> {
  while (goesOn()) {
    await pause(400 + random() * 800);
    const which = Math.floor(random() * services.length);
    const service = services[which]!;
    if (random() < 0.5) await service.kill();
    else await service.finish();
    await service[Symbol.asyncDispose]();
    services[which] = await start(service.port);
  }
}

Deno.test("lockRoutes() on two servers never lets two clients hold a lock when servers are killed at random", async () => {
  const seed = seedOf();
  // deno-lint-ignore no-console -- to replay it
  console.log(`HOLDFAST_SEED=${seed}`);
  await using redis = await startRedis();
  const start = (port = 0) => startService({ redisUrl: redis.url, port });
  const services = await Promise.all([start(), start()]);
  const urls = services.map(({ url }) => url);
  const seen: Seen = { holds: [], told: [], lost: [], statuses: new Map() };
  const startMs = performance.now();
  const holders = () => new Set(seen.told.map(({ id }) => id.split(".")[0])).size;
  const goesOn = () => {
    const ranMs = performance.now() - startMs;
    const isAllSeen = holders() > 1 && EXPECTED.every((status) => seen.statuses.has(status));
    return ranMs < RUN_MS || !isAllSeen && ranMs < BOUND_MS;
  };
  try {
    const clients = Array.from({ length: CLIENTS }, (_, i) => {
      const random = randomOf(seed + i);
      // Each id is used by two principals: it is worth nothing to the other one.
      const [as, name] = [["alice", "bob"][i % 2]!, `c${i >> 1}`];
      return runClient({ urls, key: "k", as, name, random, goesOn, seen });
    });
    await Promise.all([...clients, disturb(services, start, randomOf(seed - 1), goesOn)]);
    // Whatever happened, all of it ends by its TTL.
    const url = urls[0]!;
    await waitUntil("the lock is free", async () => !(await call(url, "GET", "/lock/k")).body.held);
  } finally {
    for (const service of services) await service[Symbol.asyncDispose]();
  }
  assertEquals(faultsOf(seen), []);
  const { statuses, told } = seen;
  for (const status of EXPECTED) assert(statuses.has(status), `${status} was answered`);
  assert(holders() > 1, "it went from one to another");
  const unexpected = [...statuses.keys()].filter((s) => ![0, 503, ...EXPECTED].includes(s));
  assertEquals(unexpected, []);
  // deno-lint-ignore no-console -- what it was worth
  console.log(`${told.length} tokens told, ${seen.holds.length} holds, statuses`, statuses);
});

Deno.test("faultsOf() finds overlapping holds and tokens that go back or serve two owners", () => {
  const statuses = new Map<number, number>();
  const a = { id: "a", fromMs: 0, untilMs: 100 };
  const b = { id: "b", fromMs: 99, untilMs: 200 };
  assertEquals(faultsOf({ holds: [b, a], told: [], lost: [], statuses }).length, 1);
  assertEquals(faultsOf({ holds: [a, { ...b, fromMs: 100 }], told: [], lost: [], statuses }), []);
  assertEquals(faultsOf({ holds: [a, { ...b, id: "a" }], told: [], lost: [], statuses }), []);
  const one = { id: "a", sentMs: 0, receivedMs: 10, token: 5n };
  const at = { sentMs: 10, receivedMs: 20 };
  const check = (id: string, token: bigint) =>
    faultsOf({ holds: [], told: [one, { id, ...at, token }], lost: [], statuses }).length;
  assertEquals([check("a", 5n), check("b", 6n), check("b", 5n), check("a", 4n)], [0, 0, 1, 1]);
  assertEquals(
    faultsOf({ holds: [], told: [one, { ...one, id: "b", token: 4n }], lost: [], statuses }),
    [],
  );
});
