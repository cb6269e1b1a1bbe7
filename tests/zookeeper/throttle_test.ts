/**
 * A server that throttles requests: it answers them without executing them, for now.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";
import { ZooKeeperError } from "../../zookeeper/connection/failures.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS, LONG_SESSION_MS } from "../../testing/time.ts";
import { nothingLeft } from "../../testing/zookeeper/leaks.ts";
import { openTransport } from "../../testing/zookeeper/open_transport.ts";
import { newRoot } from "../../testing/zookeeper/waiter.ts";

/** How many requests a test sends at once: more than the server takes. */
const BURST = Deno.env.get("HOLDFAST_SOAK") ? 250 : 100;

/** A server that takes one request at a time, and throttles each that waits longer than 5 ms. */
let server: ZooKeeperServer;

Deno.test.beforeAll(async () => {
  server = await startZooKeeper({
    extra: { settings: { request_throttle_max_requests: 1, throttled_op_wait_time: 5 } },
  });
});
Deno.test.afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

Deno.test("The transport says which requests the server has throttled, and goes on", async () => {
  using transport = await openTransport(server.port);
  const codes = new Set<string>();
  /** Sends requests at once, whose znode does not exist. */
  const send = async (count: number) => {
    const calls = Array.from({ length: count }, () => transport.delete("/nothing"));
    for (const call of await Promise.allSettled(calls)) {
      assert(call.status === "rejected" && call.reason instanceof ZooKeeperError);
      codes.add(call.reason.code);
    }
  };
  await waitUntil("a burst is throttled", async () => {
    await send(BURST);
    return codes.has("THROTTLED");
  });
  await waitUntil("a request is executed", async () => {
    await send(1);
    return codes.has("NO_NODE");
  });
  assertEquals(codes.size, 2);
  assertEquals(transport.epoch, 1);
  await transport.close(CONDITION_BOUND_MS);
});

Deno.test("ZooKeeperLock grants all locks, and keeps a lease, when the server throttles requests", async () => {
  {
    await using locks = new ZooKeeperLock(server.connectString, {
      rootPath: newRoot(),
      sessionTimeoutMs: LONG_SESSION_MS, // heartbeats are throttled, too
      unavailableAfterMs: CONDITION_BOUND_MS,
    });
    const held = await locks.acquire("held");
    const names = Array.from({ length: BURST }, (_, i) => `n${i}`);
    const leases = await Promise.all(names.map((name) => locks.acquire(name)));
    held.throwIfLost();
    for (const lease of leases) lease.throwIfLost();
    const released = await Promise.all(leases.map((lease) => lease.release()));
    assertEquals(released.filter((isOurs) => !isOurs), []);
    assertEquals(await held.release(), true);
  }
  await nothingLeft(server);
});
