import { assert, assertEquals } from "@std/assert";
import { listenOnFreePort } from "../../../testing/servers/ports.ts";
import { pause, waitUntil } from "../../../testing/servers/wait.ts";
import { ZooKeeperLock } from "../../../zookeeper/mod.ts";
import { ServerRotation } from "../../../zookeeper/transport/server_rotation.ts";

const SERVERS = ["a", "b", "c"].map((host) => ({ host, port: 2181 }));

Deno.test("ServerRotation tries all servers without a pause, then pauses longer after each round", () => {
  const rotation = new ServerRotation(SERVERS, 1_000);
  for (
    const [least, most] of [[0, 0], [100, 200], [200, 400], [400, 800], [500, 1_000], [
      500,
      1_000,
    ]] as const
  ) {
    const { pauseMs } = rotation;
    assert(pauseMs >= least && pauseMs <= most, `${pauseMs} ms instead of ${least} to ${most}`);
    assertEquals(rotation.next().host, "a");
    assertEquals(rotation.pauseMs, 0);
    assertEquals(rotation.next().host, "b");
    assertEquals(rotation.pauseMs, 0);
    assertEquals(rotation.next().host, "c");
  }
  rotation.accepted();
  assertEquals(rotation.pauseMs, 0);
});

Deno.test("ServerRotation gives different clients different pauses", () => {
  const pauses = Array.from({ length: 20 }, () => {
    const rotation = new ServerRotation(SERVERS.slice(0, 1), 1_000);
    rotation.next();
    return rotation.pauseMs;
  });
  assert(new Set(pauses).size > 10);
});

/** A server that closes each connection at once. */
function startRefusing() {
  const listener = listenOnFreePort();
  const attemptsMs: number[] = [];
  const accepting = (async () => {
    for await (const connection of listener) {
      attemptsMs.push(performance.now());
      connection.close();
    }
  })();
  return {
    port: listener.addr.port,
    attemptsMs,
    async [Symbol.asyncDispose]() {
      listener.close();
      await accepting;
    },
  };
}

Deno.test("ZooKeeperLock tries to connect more and more rarely, but at once for a new call", async () => {
  await using server = startRefusing();
  const { attemptsMs } = server;
  // The pauses may grow to a tenth of the session timeout.
  await using locks = new ZooKeeperLock(`127.0.0.1:${server.port}`, {
    sessionTimeoutMs: 60_000,
    unavailableAfterMs: 60_000,
  });
  const controller = new AbortController();
  const { signal } = controller;
  const calls = [locks.acquire("n", { signal }).catch(() => {})];
  await pause(5_000);
  assert(attemptsMs.length <= 10, `${attemptsMs.length} attempts in 5 s`);
  const isPauseLong = () => attemptsMs.at(-1)! - attemptsMs.at(-2)! > 2_500;
  await waitUntil("the pauses are long", isPauseLong);
  // Each pause takes 2.5 to 5 seconds now, unless a call ends it.
  await waitUntil("a new call connects at once", async () => {
    const before = attemptsMs.length;
    await waitUntil("the next attempt is made", () => attemptsMs.length > before);
    await pause(700);
    calls.push(locks.acquire("n", { signal }).catch(() => {}));
    await waitUntil("the next attempt is made", () => attemptsMs.length > before + 1);
    return attemptsMs.at(-1)! - attemptsMs.at(-2)! < 2_000;
  });
  controller.abort();
  await Promise.all(calls);
});
