/**
 * Many calls at once for locks that are free.
 *
 * @module
 */
import { assert, assertEquals, assertInstanceOf, assertLess } from "@std/assert";
import { LockUnavailableError } from "../../mod.ts";
import { say } from "../../testing/processes/figures.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";
import {
  startZooKeeperEnsemble,
  zooKeeperEnsembleSkip,
} from "../../testing/servers/zookeeper_ensemble.ts";
import { CONDITION_BOUND_MS, KEPT_SESSION_MS, scaled } from "../../testing/time.ts";
import { nothingLeft } from "../../testing/zookeeper/ensemble_traces.ts";
import { newRoot } from "../../testing/zookeeper/waiter.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";

const IS_SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
/** The soak runs the full figure. */
const SIZES = IS_SOAK ? [1_000, 10_000, 40_000] : [1_000];
const ENSEMBLE_SIZES = IS_SOAK ? [1_000, 3_000, 10_000] : [300];
/** How many calls meet an outage. */
const REJECTED = IS_SOAK ? 2_000 : 500;
const METHODS = ["acquire", "tryAcquire"] as const;

/** Takes many locks at once, releases them, and takes one more. Another lease is held meanwhile. */
async function burst(
  connectString: string,
  rootPath: string,
  method: typeof METHODS[number],
  size: number,
): Promise<void> {
  await using locks = new ZooKeeperLock(connectString, {
    rootPath,
    sessionTimeoutMs: KEPT_SESSION_MS,
    unavailableAfterMs: CONDITION_BOUND_MS,
    disposeTimeoutMs: CONDITION_BOUND_MS,
  });
  const held = await locks.acquire("held");
  const startMs = performance.now();
  const names = Array.from({ length: size }, (_, i) => `free-${i}`);
  const leases = await Promise.all(names.map((name) => locks[method](name)));
  const grantedMs = performance.now();
  held.throwIfLost();
  const released = await Promise.all(leases.map((lease) => lease!.release()));
  say(
    `${size} locks: granted in ${Math.round(grantedMs - startMs)} ms, ` +
      `released in ${Math.round(performance.now() - grantedMs)} ms`,
  );
  assert(released.every((isOurs) => isOurs), "each release should say that the lock was ours");
  await (await locks.acquire("after")).release();
  held.throwIfLost();
  assertEquals(await held.release(), true);
}

let server: ZooKeeperServer;

Deno.test.beforeAll(async () => {
  server = await startZooKeeper();
});
Deno.test.afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

for (const method of METHODS) {
  for (const size of SIZES) {
    Deno.test(`ZooKeeperLock.${method}() takes ${size} free locks at once, keeps a held lease, and works afterwards`, async () => {
      const rootPath = newRoot();
      await burst(server.connectString, rootPath, method, size);
      await nothingLeft([server], rootPath);
    });
  }
}

Deno.test("ZooKeeperLock rejects many calls of an outage in time, and grants all after it", async () => {
  const unavailableAfterMs = scaled(2_000);
  await using proxy = startProxy(server);
  await using locks = new ZooKeeperLock(`127.0.0.1:${proxy.port}`, {
    rootPath: newRoot(),
    sessionTimeoutMs: KEPT_SESSION_MS,
    unavailableAfterMs,
  });
  await locks.query("n"); // connects
  await proxy.refuse(true);
  proxy.cutAll();
  const names = Array.from({ length: REJECTED }, (_, i) => `n-${i}`);
  const startMs = performance.now();
  const calls = await Promise.allSettled(names.map((name) => locks.acquire(name)));
  assertLess(performance.now() - startMs, unavailableAfterMs + scaled(4_000));
  for (const call of calls) {
    assert(call.status === "rejected");
    assertInstanceOf(call.reason, LockUnavailableError);
  }
  await proxy.refuse(false);
  const leases = await Promise.all(names.map((name) => locks.acquire(name)));
  await Promise.all(leases.map((lease) => lease.release()));
});

const ensembleSkip = await zooKeeperEnsembleSkip();

Deno.test({
  name: `ZooKeeperLock takes ${ENSEMBLE_SIZES.join(", ")} free locks at once on three servers` +
    (ensembleSkip === undefined ? "" : ` [skipped: ${ensembleSkip}]`),
  ignore: ensembleSkip !== undefined,
  async fn() {
    await using ensemble = await startZooKeeperEnsemble();
    for (const method of METHODS) {
      for (const size of ENSEMBLE_SIZES) {
        const rootPath = newRoot();
        await burst(ensemble.connectString, rootPath, method, size);
        await nothingLeft(ensemble.members, rootPath);
      }
    }
  },
});
