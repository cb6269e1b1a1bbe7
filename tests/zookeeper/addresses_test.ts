/**
 * Where the servers are: hosts with several addresses, lists of servers from a function, and both
 * changing between two connections.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { LockSetupError, LockUnavailableError } from "../../core/contract/errors.ts";
import { forwardFrom } from "../../testing/servers/forward.ts";
import { listenOnFreePort } from "../../testing/servers/ports.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS, KEPT_SESSION_MS, scaled } from "../../testing/time.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";
import { openTransport } from "../../testing/zookeeper/open_transport.ts";
import { newRoot } from "../../testing/zookeeper/waiter.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";

let server: ZooKeeperServer;

Deno.test.beforeAll(async () => {
  server = await startZooKeeper();
});
Deno.test.afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

function hostAt(port: number) {
  return { listServers: () => Promise.resolve([{ host: "zk.test", port }]) };
}

/** A port on which nothing listens. */
function closedPort(): number {
  using listener = listenOnFreePort();
  return listener.addr.port;
}

Deno.test("The transport tries all addresses of a host: one that is dead, one that is silent", async () => {
  const { port } = server;
  const host = hostAt(port);
  {
    const lookUp = () => Promise.resolve(["::1", "127.0.0.1"]);
    using transport = await openTransport(port, { ...host, lookUp });
    await transport.createPersistent(newRoot());
  }
  // The runtime would take the first address that accepts the connection, again and again.
  using mute = Deno.listen({ hostname: "::1", port });
  const muted: Deno.Conn[] = [];
  const accepting = (async () => {
    for await (const connection of mute) muted.push(connection);
  })();
  {
    const lookUp = () => Promise.resolve(["::1", "127.0.0.1"]);
    using transport = await openTransport(port, {
      ...host,
      lookUp,
      sessionTimeoutMs: scaled(2_000), // a third of it is lost at the silent address
      requestTimeoutMs: CONDITION_BOUND_MS,
    });
    await transport.createPersistent(newRoot());
  }
  assert(muted.length >= 2, "the attempt, and the question who is there");
  mute.close();
  await accepting;
  for (const connection of muted) connection.close();
});

/** Listens on a port of ::1 whose system answers no more attempts to connect. */
async function startFull(port: number): Promise<AsyncDisposable> {
  const listener = Deno.listen({ hostname: "::1", port, tcpBacklog: 1 });
  const waiting: Promise<Deno.Conn | null>[] = [];
  for (let isFull = false; !isFull;) {
    const connecting = Deno.connect({ hostname: "::1", port }).catch(() => null);
    waiting.push(connecting);
    const isMade = connecting.then((connection) => connection !== null);
    isFull = !await Promise.race([isMade, pause(scaled(500)).then(() => false)]);
  }
  return {
    async [Symbol.asyncDispose]() {
      listener.close();
      for (const connection of await Promise.all(waiting)) connection?.close();
    },
  };
}

Deno.test("The transport leaves an address soon that cannot be reached, if the host has others", async () => {
  const { port } = server;
  await using _full = await startFull(port);
  const lookUp = () => Promise.resolve(["::1", "::1", "::1", "127.0.0.1"]);
  const startMs = performance.now();
  using transport = await openTransport(port, { ...hostAt(port), lookUp });
  // An attempt may take 2,000 ms in all.
  const tookMs = performance.now() - startMs;
  assert(tookMs < scaled(5_000), `${tookMs} ms`);
  await transport.createPersistent(newRoot());
});

Deno.test("The transport looks a host up again when it reconnects, and resumes its session there", async () => {
  await using proxy = startProxy(server);
  let addresses = ["127.0.0.1", "::1"];
  const lookUp = () => Promise.resolve(addresses);
  using transport = await openTransport(proxy.port, { ...hostAt(proxy.port), lookUp });
  const path = newRoot();
  await transport.createEphemeral(path);
  // The host moves: nothing listens at its old address.
  await using _moved = forwardFrom("::1", proxy.port, server.port);
  addresses = ["::1", "::1"];
  await proxy.refuse(true);
  proxy.cutAll();
  await waitUntil("it is back", () => transport.epoch === 2, CONDITION_BOUND_MS);
  await transport.set(path);
  await transport.close(CONDITION_BOUND_MS);
});

Deno.test("The transport names the addresses that it has tried", async () => {
  const port = closedPort();
  const lookUp = () => Promise.resolve(["127.0.0.1", "::1"]);
  const options = { ...hostAt(port), lookUp, until: "connecting" } as const;
  using transport = await openTransport(port, options);
  const message = () => (transport.connectError as Error | undefined)?.message ?? "";
  await waitUntil("both were tried", () => message().includes("::1"));
  const both = `zk.test:${port} at 127.0.0.1: ECONNREFUSED, zk.test:${port} at ::1: ECONNREFUSED`;
  assert(message().includes(both), message());
});

Deno.test("ZooKeeperLock gets its servers from a function, and keeps its leases when they move", async () => {
  await using before = startProxy(server);
  await using after = startProxy(server);
  let port = before.port;
  let calls = 0;
  const servers = () => {
    calls++;
    return Promise.resolve(`127.0.0.1:${port}`);
  };
  await using locks = new ZooKeeperLock(servers, {
    rootPath: newRoot(),
    sessionTimeoutMs: KEPT_SESSION_MS,
  });
  assertEquals(calls, 0);
  const lease = await locks.acquire("n");
  assertEquals(calls, 1);
  port = after.port;
  await before.refuse(true);
  before.cutAll();
  await lease.renew();
  assertEquals(after.connections, 1);
  assertEquals(await lease.release(), true);
});

Deno.test("ZooKeeperLock takes a failure of the function for an outage, which ends with it", async () => {
  let [isDown, failures] = [true, 0];
  const servers = () => {
    failures++;
    if (isDown) throw new TypeError("consul is down");
    return server.connectString;
  };
  await using locks = new ZooKeeperLock(servers, { rootPath: newRoot(), unavailableAfterMs: 300 });
  const { message } = await assertRejects(() => locks.acquire("n"), LockUnavailableError);
  assert(message.includes("list of servers: consul is down"), message);
  const call = new ZooKeeperLock(servers, { rootPath: newRoot() });
  const before = failures;
  const lease = call.acquire("n");
  const hasFailed = () => failures > before + 1;
  await waitUntil("the function has failed again", hasFailed, CONDITION_BOUND_MS);
  isDown = false;
  await (await lease).release();
  await call[Symbol.asyncDispose]();
});

Deno.test("ZooKeeperLock takes a function that does not answer for an outage", async () => {
  await using locks = new ZooKeeperLock(() => new Promise(() => {}), {
    sessionTimeoutMs: 600,
    unavailableAfterMs: 500,
  });
  const { message } = await assertRejects(() => locks.acquire("n"), LockUnavailableError);
  assert(message.includes("list of servers: ETIMEDOUT"), message);
});

Deno.test("ZooKeeperLock.acquire() rejects with a LockSetupError at once when the function returns no servers", async () => {
  const bad = ["", "a,,b", `${server.connectString}/chroot`, 42, undefined];
  for (const value of bad) {
    await using locks = new ZooKeeperLock(() => value as string, {
      unavailableAfterMs: CONDITION_BOUND_MS,
    });
    const { message } = await assertRejects(() => locks.acquire("n"), LockSetupError);
    assert(message.includes("list of servers: it is bad"), message);
  }
});

Deno.test("ZooKeeperLock.acquire() names what each of several servers answered", async () => {
  using other = listenOnFreePort();
  const answering = (async () => {
    for await (const connection of other) {
      await connection.write(new TextEncoder().encode("HTTP/1.1 400 Bad Request\r\n\r\n"));
      await connection.read(new Uint8Array(1_024)).catch(() => null);
      connection.close();
    }
  })();
  const refused = `127.0.0.1:${closedPort()}`;
  const unreadable = `127.0.0.1:${other.addr.port}`;
  const other6 = `[::1]:${closedPort()}`;
  const warnings: string[] = [];
  await using locks = new ZooKeeperLock(`${refused},${unreadable},${other6}`, {
    unavailableAfterMs: scaled(1_000),
    onWarning: (warning) => warnings.push(warning),
  });
  const { message } = await assertRejects(() => locks.acquire("n"), LockUnavailableError);
  for (
    const part of [
      `${refused}: ECONNREFUSED`,
      `${unreadable}: it answered "HTTP/1.1 400 Bad Request"`,
      `${other6}: ECONNREFUSED`,
    ]
  ) assert(message.includes(part), message);
  // Of that server only: the others may start, and no call would say that this one is no ZooKeeper.
  assert(warnings.length > 0);
  for (const warning of warnings) {
    assert(warning.includes(unreadable) && !warning.includes("ECONNREFUSED"), warning);
  }
  await locks[Symbol.asyncDispose]();
  other.close();
  await answering;
});

Deno.test("ZooKeeperLock gets to another server at a later call if one is silent for longer than a call may take", async () => {
  await using silent = startProxy(server);
  await using healthy = startProxy(server);
  silent.blackHole("both");
  const rootPath = newRoot();
  // Which server is the first differs from instance to instance.
  await Promise.all(Array.from({ length: 8 }, async (_, i) => {
    await using locks = new ZooKeeperLock(`127.0.0.1:${silent.port},127.0.0.1:${healthy.port}`, {
      rootPath,
      unavailableAfterMs: scaled(1_000), // one attempt may take 2,000 ms
      disposeTimeoutMs: scaled(100),
    });
    await waitUntil("a call succeeds", async () => {
      const lease = await locks.acquire(`n${i}`).catch((error) => {
        if (error instanceof LockUnavailableError) return null;
        throw error;
      });
      await lease?.release();
      return lease !== null;
    }, CONDITION_BOUND_MS);
  }));
});
