/** The life of a request that all frameworks share, without any of them. */
import { assertEquals } from "@std/assert";
import { FakeClock, FakeLock } from "../../fake/mod.ts";
import { lockPath } from "../../file/lock_directory.ts";
import { FileLock } from "../../file/mod.ts";
import type { HoldSettings } from "../../http/internal/options.ts";
import { releaseInTime, runUnderLease } from "../../http/internal/request.ts";
import { fetchLock } from "../../http/mod.ts";
import { type Lease, MemoryLock } from "../../mod.ts";
import { withLeases } from "../../testing/http/with_leases.ts";

Deno.test("runUnderLease() reports what a handler throws after its own release found the lock gone", async () => {
  const dir = await Deno.makeTempDir();
  {
    await using locks = new FileLock({ dir });
    const lease = await locks.acquire("orders:42");
    const bug = new Error("A bug");
    const reported: unknown[] = [];
    const settings = { onError: (error: unknown) => void reported.push(error) } as HoldSettings;
    const result = await runUnderLease(lease, settings, async () => {
      await Deno.remove(lockPath(dir, "orders:42"));
      await lease.release();
      throw bug;
    });
    assertEquals(result.state, "lost");
    if (result.state === "lost") await result.ended;
    assertEquals(reported, [bug]);
  }
  await Deno.remove(dir, { recursive: true });
});

Deno.test("runUnderLease() tells the end of a handler also when its late error cannot be reported", async () => {
  await using locks = new MemoryLock();
  const lease = await locks.acquire("orders:42");
  const gate = Promise.withResolvers<void>();
  const settings = {
    onError() {
      throw new Error("A bug");
    },
  } as unknown as HoldSettings;
  const running = runUnderLease(lease, settings, () => gate.promise);
  await locks.request("orders:42", { steal: true }, () => {});
  const result = await running;
  gate.reject(new Error("Another bug"));
  assertEquals(result.state === "lost" && await result.ended, undefined);
});

Deno.test("releaseInTime() reports what the release of another package's lease throws at once", async () => {
  const bug = new Error("A bug");
  const lease = {
    release() {
      throw bug;
    },
  } as unknown as Lease;
  const reported: unknown[] = [];
  const settings = { onError: (error: unknown) => void reported.push(error) } as HoldSettings;
  await releaseInTime(lease, settings);
  assertEquals(reported, [bug]);
});

Deno.test("a handler runs under a lease that a suspension has left unproven only when the service has proven it", async () => {
  for (const isGone of [true, false]) {
    const clock = new FakeClock();
    await using locks = new FakeLock({ clock, ttlMs: 3_000 });
    const frozen = withLeases(locks, (lease) => {
      clock.suspend(isGone ? 6_000 : 1_500); // between the request for the lock and its answer
      return lease;
    });
    const held: boolean[] = [];
    const handler = fetchLock(frozen, "n")((_request, lease) => {
      held.push(lease.isHeld);
      return new Response();
    });
    const { status } = await handler(new Request("http://localhost/"));
    assertEquals([status, held], isGone ? [503, []] : [200, [true]]);
  }
});
