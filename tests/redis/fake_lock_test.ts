/** A `FakeLock` stands in for a `RedisLock`: its holder sees each loss of a lease as that of a real one. */
import { assertEquals } from "@std/assert";
import { FakeLock } from "../../fake/mod.ts";
import type { DistributedLock, Lease, LeaseLostReason } from "../../mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { lossTrace } from "../../testing/fake/loss_trace.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { type FaultProxy, startProxy } from "../../testing/servers/proxy.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { FAULT_TTL_MS, KEPT_TTL_MS, scaled } from "../../testing/time.ts";

const MAX_HOLD_MS = scaled(500);

/** How a lease is lost with each reason on Redis. */
interface Scene {
  readonly server: RedisServer;
  readonly proxy: FaultProxy;
  readonly lock: DistributedLock;
}

const LOSSES: Readonly<Record<string, (scene: Scene, lease: Lease) => unknown>> = {
  async expired({ server }, lease) {
    await server.command("DEL", "lock:n");
    lease.renew().catch(() => {});
  },
  async stolen({ server }, lease) {
    const { signal } = lease;
    const { client, close } = await openRedisClient("node-redis", server.url);
    {
      await using thief = new RedisLock(client);
      const untilNoticed = () => {
        lease.renew().catch(() => {}); // now: the lease may expire while this machine stalls
        return waitUntil("it is noticed", () => signal.aborted);
      };
      await thief.request("n", { steal: true }, untilNoticed);
    }
    await close();
  },
  unreachable({ proxy }, lease) {
    proxy.blackHole("both");
    lease.renew().catch(() => {}); // now: it may expire while this machine stalls
  },
  "max-hold": () => {},
  disposed: ({ lock }) => void lock[Symbol.asyncDispose](),
};

let server: RedisServer;
Deno.test.beforeAll(async () => void (server = await startRedis()));
Deno.test.afterAll(async () => await server[Symbol.asyncDispose]());

for (const [reason, lose] of Object.entries(LOSSES)) {
  Deno.test(`FakeLock.loseLease() shows its holder what RedisLock does: ${reason}`, async () => {
    const maxHoldMs = reason === "max-hold" ? MAX_HOLD_MS : undefined;
    await using proxy = startProxy(server);
    const url = `redis://${proxy.hostname}:${proxy.port}`;
    const { client, close } = await openRedisClient("node-redis", url);
    let real: unknown[];
    {
      await using lock = new RedisLock(client, {
        ttlMs: reason === "unreachable" ? FAULT_TTL_MS : KEPT_TTL_MS,
        disposeTimeoutMs: scaled(900),
      });
      real = await lossTrace(lock, (lease) => lose({ server, proxy, lock }, lease), maxHoldMs);
      proxy.cutAll();
    }
    await close();
    await using fake = new FakeLock();
    const loseFake = ({ name }: Lease) => fake.loseLease(name, reason as LeaseLostReason);
    assertEquals(await lossTrace(fake, loseFake), real);
  });
}
