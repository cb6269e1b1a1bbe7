import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { listenOnFreePort } from "../../testing/servers/ports.ts";
import { type FaultProxy, startProxy } from "../../testing/servers/proxy.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import {
  CONDITION_BOUND_MS,
  ENDING_SESSION_MS,
  KEPT_SESSION_MS,
  LONG_SESSION_MS,
  scaled,
} from "../../testing/time.ts";
import { countedServers } from "../../testing/zookeeper/counted_servers.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";
import { LockSetupError, LockUnavailableError } from "../../core/contract/errors.ts";
import { ZooKeeperLock, type ZooKeeperLockOptions } from "../../zookeeper/mod.ts";
import type { ZooKeeperError } from "../../zookeeper/connection/failures.ts";
import { openNodeZooKeeperClient } from "../../zookeeper/connection/node_zookeeper_client.ts";
import { observing } from "../../testing/zookeeper/observer.ts";
import { newRoot, waiter } from "../../testing/zookeeper/waiter.ts";
import { operations, refuseAll } from "../../testing/zookeeper/wire.ts";

/** How often an answer is lost. */
const LOSSES = Deno.env.get("HOLDFAST_SOAK") ? 5 : 3;
const CALLS = ["acquire", "tryAcquire", "query"] as const;
/** A call that rejects does not wait for the end of its session. */
const SOONER_THAN_SESSION_MS = scaled(10_000);

let server: ZooKeeperServer;

Deno.test.beforeAll(async () => {
  server = await startZooKeeper();
});
Deno.test.afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

function through(proxy: FaultProxy, options: ZooKeeperLockOptions): ZooKeeperLock {
  return new ZooKeeperLock(`127.0.0.1:${proxy.port}`, {
    sessionTimeoutMs: KEPT_SESSION_MS,
    ...options,
  });
}

async function unavailable(promise: Promise<unknown>): Promise<string> {
  return await messageOf(promise, LockUnavailableError);
}

async function refused(promise: Promise<unknown>): Promise<string> {
  return await messageOf(promise, LockSetupError);
}

async function messageOf(
  promise: Promise<unknown>,
  errorClass: new (message: string) => Error,
): Promise<string> {
  const rejected = assertRejects(() => promise, errorClass);
  return (await within("the call rejects", rejected, SOONER_THAN_SESSION_MS)).message;
}

/** Loses the answer to the next create, and all later answers on that connection. */
function loseNextCreate(proxy: FaultProxy, verdict: "cut" | "drop"): void {
  let isLost = false;
  proxy.onRequest = operations((operation) => {
    if (operation === "create") isLost = true;
  });
  proxy.onReply = () => {
    if (!isLost) return "pass";
    proxy.onRequest = proxy.onReply = undefined;
    return verdict;
  };
}

for (const verdict of ["cut", "drop"] as const) {
  Deno.test(`ZooKeeperLock.acquire() leaves no orphaned znode when the answer to its create is lost (${verdict})`, async () => {
    const rootPath = newRoot();
    await using proxy = startProxy(server);
    await using locks = through(proxy, { rootPath, requestTimeoutMs: 300 });
    await (await locks.acquire("n")).release();
    await observing(server.connectString, async (observer) => {
      const queue = () => observer.children(`${rootPath}/n`);
      for (let i = 0; i < LOSSES; i++) {
        loseNextCreate(proxy, verdict);
        const lease = await locks.acquire("n");
        assertEquals((await queue()).length, 1);
        assertEquals(await lease.release(), true);
        assertEquals(await queue(), []);
      }
      // A call that is aborted before its create is resolved leaves no znode either.
      for (let i = 0; i < LOSSES; i++) {
        loseNextCreate(proxy, verdict);
        const signal = AbortSignal.timeout(20 * i);
        await locks.acquire("n", { signal }).then((lease) => lease.release(), () => {});
        await waitUntil("nothing is left", async () => (await queue()).length === 0);
      }
      // A waiter has one place in the queue.
      const first = await locks.acquire("n");
      loseNextCreate(proxy, verdict);
      const { lease } = await waiter(locks, "n");
      assertEquals((await queue()).length, 2);
      await first.release();
      await (await lease).release();
    });
  });
}

Deno.test("Lease.release() returns true when the answer to its delete is lost", async () => {
  await using proxy = startProxy(server);
  await using locks = through(proxy, { rootPath: newRoot(), requestTimeoutMs: 300 });
  const lease = await locks.acquire("n");
  proxy.onReply = () => {
    proxy.onReply = undefined;
    return "cut";
  };
  assertEquals(await lease.release(), true);
  await (await locks.acquire("n")).release();
});

Deno.test("ZooKeeperLock.acquire() reconnects when the connection is cut in the middle of a long reply", async () => {
  const rootPath = newRoot();
  await using proxy = startProxy(server);
  await observing(server.connectString, async (observer) => {
    await observer.make(`${rootPath}/n`);
    const filler = "x".repeat(200);
    const made = Array.from(
      { length: 1_500 },
      () => observer.makeSequential(`${rootPath}/n/${filler}`),
    );
    await Promise.all(made);
  });
  await using locks = through(proxy, { rootPath, requestTimeoutMs: scaled(1_000) });
  for (let i = 0; i < 8; i++) {
    let bytes = 0;
    proxy.onReply = (chunk) => {
      bytes += chunk.length;
      // The listing has 320 kB and arrives in many chunks.
      if (bytes < 100_000 + 20_000 * i) return "pass";
      proxy.onReply = undefined;
      return "cut";
    };
    await using lease = await locks.acquire("n");
    assertEquals(proxy.onReply, undefined);
    lease.throwIfLost();
  }
});

Deno.test("ZooKeeperLock rejects with a LockSetupError when the server answers with an unknown error code", async () => {
  using listener = listenOnFreePort();
  const serving = (async () => {
    for await (const connection of listener) {
      await refuseAll(connection, -199);
      connection.close();
    }
  })();
  await using locks = new ZooKeeperLock(`127.0.0.1:${listener.addr.port}`);
  for (let i = 0; i < 2; i++) {
    assertStringIncludes(await refused(locks.acquire("n")), "with error (-199)");
  }
  assertStringIncludes(await refused(locks.query("n")), "with error (-199)");
  await locks[Symbol.asyncDispose]();
  listener.close();
  await serving;
});

Deno.test("ZooKeeperLock.acquire() rejects, and says why, when the server is none of ZooKeeper's", async () => {
  using listener = listenOnFreePort();
  const serving = (async () => {
    for await (const connection of listener) {
      await connection.write(new TextEncoder().encode("220 mail.example.com ESMTP\r\n"));
      await connection.read(new Uint8Array(1_024)).catch(() => null);
      connection.close();
    }
  })();
  await using locks = new ZooKeeperLock(`127.0.0.1:${listener.addr.port}`, {
    unavailableAfterMs: scaled(500),
  });
  const { message } = await assertRejects(() => locks.acquire("n"), LockUnavailableError);
  assert(message.includes('it answered "220 mail.example.com ESMTP"). Is it a ZooKeeper'), message);
  await locks[Symbol.asyncDispose]();
  listener.close();
  await serving;
});

Deno.test("ZooKeeperLock tries the next host when one is dead, or accepts connections and never answers", async () => {
  using mute = listenOnFreePort();
  const muted: Deno.Conn[] = [];
  const accepting = (async () => {
    for await (const connection of mute) muted.push(connection);
  })();
  const hosts = [`127.0.0.1:${mute.addr.port}`, "127.0.0.1:1", server.connectString];
  // Each instance tries the hosts in a random order.
  for (let i = 0; i < 4; i++) {
    await using locks = new ZooKeeperLock(hosts.join(), {
      sessionTimeoutMs: ENDING_SESSION_MS, // a third of it is lost at the silent host
      unavailableAfterMs: CONDITION_BOUND_MS,
    });
    await (await locks.acquire("n")).release();
  }
  mute.close();
  await accepting;
  for (const connection of muted) connection.close();
});

Deno.test("ZooKeeperLock connects to an IPv6 address", async () => {
  using listener = Deno.listen({ hostname: "::1", port: 0 });
  const forwarding = (async () => {
    for await (const client of listener) {
      const upstream = await Deno.connect(server);
      await Promise.allSettled([
        client.readable.pipeTo(upstream.writable),
        upstream.readable.pipeTo(client.writable),
      ]);
    }
  })();
  {
    await using locks = new ZooKeeperLock(`[::1]:${listener.addr.port}`, { rootPath: newRoot() });
    await (await locks.acquire("n")).release();
  }
  listener.close();
  await forwarding;
});

/** A port on which nothing listens. */
function closedPort(): number {
  using listener = listenOnFreePort();
  return listener.addr.port;
}

Deno.test("ZooKeeperLock.acquire() rejects in time, and names ECONNREFUSED, when no server listens", async () => {
  const port = closedPort();
  await using locks = new ZooKeeperLock(`127.0.0.1:${port}`, {
    sessionTimeoutMs: LONG_SESSION_MS,
    unavailableAfterMs: 500,
  });
  const rejected = assertRejects(() => locks.acquire("orders:42"), LockUnavailableError);
  const error = await within("the call rejects", rejected, SOONER_THAN_SESSION_MS);
  assertEquals(error.lockName, "orders:42");
  assert(error.message.includes('lock "orders:42"'), error.message);
  assert(error.message.includes(`(127.0.0.1:${port}: ECONNREFUSED). Is the server running?`));
  assertEquals((error.cause as { code?: string }).code, "ECONNREFUSED");
});

Deno.test("ZooKeeperLock.acquire() names why there is no connection when its session has ended in the outage", async () => {
  await using proxy = startProxy(server);
  await using locks = through(proxy, {
    sessionTimeoutMs: ENDING_SESSION_MS,
    unavailableAfterMs: 4 * ENDING_SESSION_MS,
  });
  await locks.query("n"); // connects
  await proxy.refuse(true);
  proxy.cutAll();
  const error = await assertRejects(() => locks.acquire("n"), LockUnavailableError);
  assert(error.message.includes("ECONNREFUSED"), error.message);
});

Deno.test("openNodeZooKeeperClient() forgets the error of a dead host when another one accepts the session", async () => {
  const transport = openNodeZooKeeperClient({
    listServers: () =>
      Promise.resolve([closedPort(), server.port].map((port) => ({ host: "127.0.0.1", port }))),
    tls: undefined,
    warn: () => {},
    sessionTimeoutMs: KEPT_SESSION_MS,
    requestTimeoutMs: undefined,
    unavailableAfterMs: CONDITION_BOUND_MS,
    auth: undefined,
  });
  await waitUntil("it is connected", () => transport.state === "connected");
  assertEquals(transport.connectError, undefined);
  await transport.close(CONDITION_BOUND_MS);
});

Deno.test("ZooKeeperLock rejects with a LockUnavailableError in time when the server never answers", async () => {
  await using proxy = startProxy(server);
  proxy.blackHole("both");
  await using locks = through(proxy, {
    sessionTimeoutMs: LONG_SESSION_MS,
    unavailableAfterMs: 500,
  });
  const messages = CALLS.map((call) => unavailable(locks[call]("n")));
  for (const message of await Promise.all(messages)) {
    assertStringIncludes(message, "it did not accept the session in time");
  }
});

Deno.test("ZooKeeperLock rejects calls that begin in an outage in time, though its session may be alive", async () => {
  await using proxy = startProxy(server);
  await using locks = through(proxy, {
    rootPath: newRoot(),
    sessionTimeoutMs: LONG_SESSION_MS,
    unavailableAfterMs: scaled(2_000),
  });
  const lease = await locks.acquire("n");
  await proxy.refuse(true);
  proxy.cutAll();
  // A call that begins now may lose its connection. Later ones find that there is none.
  await unavailable(locks.query("n"));
  const messages = CALLS.map((call) => unavailable(locks[call]("other")));
  for (const message of await Promise.all(messages)) {
    assertStringIncludes(message, "ECONNREFUSED");
    assert(!message.includes("accepted the session"), message); // that connection was of use
  }
  await proxy.refuse(false);
  await lease.renew();
  assertEquals(await lease.release(), true);
});

Deno.test("ZooKeeperLock.acquire() survives a short outage, and rejects in a long one without losing a held lease", async () => {
  const rootPath = newRoot();
  await using proxy = startProxy(server);
  const servers = countedServers(proxy);
  await using locks = new ZooKeeperLock(servers.list, {
    rootPath,
    sessionTimeoutMs: LONG_SESSION_MS,
    unavailableAfterMs: scaled(2_000),
  });
  await using others = new ZooKeeperLock(server.connectString, { rootPath });
  const first = await others.acquire("n");
  const second = await waiter(locks, "n");
  await proxy.refuse(true);
  proxy.cutAll();
  await servers.triedAgain();
  await proxy.refuse(false);
  await first.release();
  const lease = await second.lease;
  const third = await waiter(locks, "n");
  await proxy.refuse(true);
  proxy.cutAll();
  const error = await assertRejects(() => third.lease, LockUnavailableError);
  assertEquals((error.cause as { code?: string }).code, "ECONNREFUSED");
  assert(error.message.includes("ECONNREFUSED"), error.message);
  await proxy.refuse(false);
  lease.throwIfLost(); // The outage was shorter than the validity of the session.
  await waitUntil("the znode of the rejected call is deleted", async () => {
    return (await others.query("n")).waiters.length === 0;
  });
  assertEquals(await lease.release(), true);
});

/** Returns the two proxies, the one that is connected first. */
function proxiesOf(a: FaultProxy, b: FaultProxy): [used: FaultProxy, spare: FaultProxy] {
  const proxies: [FaultProxy, FaultProxy] = a.connections > 0 ? [a, b] : [b, a];
  assertEquals(proxies.map(({ connections }) => connections), [1, 0]);
  return proxies;
}

Deno.test("ZooKeeperLock keeps its lease at another host when the server stops answering", async () => {
  await using a = startProxy(server);
  await using b = startProxy(server);
  await using locks = new ZooKeeperLock(`127.0.0.1:${a.port},127.0.0.1:${b.port}`, {
    rootPath: newRoot(),
    sessionTimeoutMs: scaled(6_000),
  });
  const lease = await locks.acquire("n");
  const [used, spare] = proxiesOf(a, b);
  used.blackHole("both");
  await waitUntil("the session has moved to the other proxy", () => spare.connections > 0);
  await lease.renew();
  lease.throwIfLost();
  assertEquals(await locks.tryAcquire("n"), null);
  assertEquals(await lease.release(), true);
});

Deno.test("ZooKeeperLock.acquire() keeps its place at another host when the server stops answering", async () => {
  const rootPath = newRoot();
  await using a = startProxy(server);
  await using b = startProxy(server);
  await using locks = new ZooKeeperLock(`127.0.0.1:${a.port},127.0.0.1:${b.port}`, {
    rootPath,
    sessionTimeoutMs: scaled(6_000),
  });
  await using others = new ZooKeeperLock(server.connectString, { rootPath });
  const first = await others.acquire("n");
  const second = await waiter(locks, "n");
  const third = await waiter(others, "n");
  const [used, spare] = proxiesOf(a, b);
  used.blackHole("both");
  await waitUntil("the session has moved to the other proxy", () => spare.connections > 0);
  await first.release();
  const lease = await second.lease;
  assertEquals(await others.tryAcquire("n"), null);
  assertEquals(await lease.release(), true);
  await (await third.lease).release();
});

Deno.test("ZooKeeperLock with credentials refuses clients that do not have them", async () => {
  const rootPath = newRoot();
  await using proxy = startProxy(server);
  const auth = { scheme: "digest", credentials: "holdfast:secret" };
  await using locks = through(proxy, { rootPath, auth });
  await using others = new ZooKeeperLock(server.connectString, { rootPath });
  const lease = await locks.acquire("n");
  assertStringIncludes(await refused(others.acquire("n")), "NO_AUTH");
  assertStringIncludes(await refused(others.query("n")), "NO_AUTH");
  // The credentials are sent first on each connection.
  for (let i = 0; i < 5; i++) {
    proxy.cutAll();
    assertEquals(await locks.tryAcquire("n"), null);
  }
  assertEquals(await lease.release(), true);
});

Deno.test("ZooKeeperLock.acquire() rejects at once, without showing the secret, when the credentials are refused", async () => {
  await using locks = new ZooKeeperLock(server.connectString, {
    auth: { scheme: "nosuch", credentials: "hunter2" },
  });
  const error = await assertRejects(() => locks.acquire("n"), LockSetupError);
  assertEquals((error.cause as ZooKeeperError).code, "AUTH_FAILED");
  assert(!Deno.inspect(error).includes("hunter2"));
});
