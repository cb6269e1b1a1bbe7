/**
 * Bounded waits, and calls without a bound, while the server accepts connections and does not answer.
 *
 * @module
 */
import { assertLess, assertRejects } from "@std/assert";
import { SILENCES, worstLatenessMs } from "../../testing/conformance/silent_services.ts";
import { say } from "../../testing/processes/figures.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";
import { scaled } from "../../testing/time.ts";
import { newRoot } from "../../testing/zookeeper/waiter.ts";
import { LockUnavailableError } from "../../mod.ts";
import { ZooKeeperLock, type ZooKeeperLockOptions } from "../../zookeeper/mod.ts";

/** The promise is 1.1 s on a machine that has time. Some settings were 7 s late, or more. */
const LATE_MS = scaled(4_000);
const SETTINGS: readonly ZooKeeperLockOptions[] = [
  {},
  { sessionTimeoutMs: 40_000, unavailableAfterMs: 15_000 },
  { requestTimeoutMs: 20_000 },
];

const ALL_SILENCES: typeof SILENCES = {
  ...SILENCES,
  "accepts the session and drops the connection": (proxy) => {
    proxy.onReply = (chunk) => ({ cutAfterBytes: chunk.length });
    proxy.cutAll();
  },
};

let server: ZooKeeperServer;

Deno.test.beforeAll(async () => {
  server = await startZooKeeper();
});
Deno.test.afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

for (const [name, begin] of Object.entries(ALL_SILENCES)) {
  Deno.test(`ZooKeeperLock keeps waitMs when the server ${name}`, async () => {
    const worst = await Promise.all(SETTINGS.map(async (settings) => {
      await using proxy = startProxy(server);
      await using lock = new ZooKeeperLock(`127.0.0.1:${proxy.port}`, {
        ...settings,
        rootPath: newRoot(),
        disposeTimeoutMs: 100,
      });
      await (await lock.acquire("n")).release();
      begin(proxy);
      return Math.max(await worstLatenessMs(lock), await worstLatenessMs(lock));
    }));
    say(`the server ${name}: late by ${worst.map(Math.round).join(", ")} ms at worst`);
    assertLess(Math.max(...worst), LATE_MS);
  });

  Deno.test(`ZooKeeperLock keeps unavailableAfterMs when the server ${name}`, async () => {
    const unavailableAfterMs = scaled(2_000);
    await using proxy = startProxy(server);
    await using lock = new ZooKeeperLock(`127.0.0.1:${proxy.port}`, {
      unavailableAfterMs,
      requestTimeoutMs: scaled(20_000),
      rootPath: newRoot(),
      disposeTimeoutMs: 100,
    });
    await (await lock.acquire("n")).release();
    begin(proxy);
    const startMs = performance.now();
    const calls = [lock.acquire("n"), lock.tryAcquire("n"), lock.query("n")];
    await Promise.all(calls.map((call) => assertRejects(() => call, LockUnavailableError)));
    assertLess(performance.now() - startMs, unavailableAfterMs + LATE_MS);
  });
}
