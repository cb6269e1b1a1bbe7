/** The life of a request that all frameworks share, without any of them. */
import { assertEquals } from "@std/assert";
import { lockPath } from "../../file/lock_directory.ts";
import { FileLock } from "../../file/mod.ts";
import type { HoldSettings } from "../../http/internal/options.ts";
import { releaseInTime, runUnderLease } from "../../http/internal/request.ts";
import { type Lease, MemoryLock } from "../../mod.ts";

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
