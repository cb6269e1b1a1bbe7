/**
 * Rows of the failure matrix in `docs/zookeeper-protocol.md`: faults of connections and servers. After
 * each of them the server keeps nothing of ours.
 *
 * @module
 */
import { assert, assertEquals, assertInstanceOf, assertRejects } from "@std/assert";
import { Buffer } from "node:buffer";
import { type FaultProxy, startProxy } from "../../testing/servers/proxy.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";
import { called, withClient } from "../../testing/servers/zookeeper_cleanup.ts";
import { LeaseLostError, LockUnavailableError } from "../../core/contract/errors.ts";
import { ZooKeeperLock, type ZooKeeperLockOptions } from "../../zookeeper/mod.ts";
import {
  CONDITION_BOUND_MS,
  ENDING_SESSION_MS,
  KEPT_SESSION_MS,
  scaled,
} from "../../testing/time.ts";
import { countedServers } from "../../testing/zookeeper/counted_servers.ts";
import { ZooKeeperError } from "../../zookeeper/connection/failures.ts";
import { Requests } from "../../zookeeper/connection/requests.ts";
import { nothingLeft } from "../../testing/zookeeper/leaks.ts";
import { observing } from "../../testing/zookeeper/observer.ts";
import { randomFrom } from "../../testing/processes/random.ts";
import { newRoot, waiter } from "../../testing/zookeeper/waiter.ts";
import {
  endSession,
  operations,
  type SessionKey,
  sessionKeys,
} from "../../testing/zookeeper/wire.ts";

/** How many replies are cut in the middle. */
const CUTS = Deno.env.get("HOLDFAST_SOAK") ? 60 : 4;
const MAX_XID = 2 ** 31 - 1;

let server: ZooKeeperServer;

Deno.test.beforeAll(async () => {
  server = await startZooKeeper({ extra: { settings: { enforceQuota: "true" } } });
});
Deno.test.afterEach(() => nothingLeft(server));
Deno.test.afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

function through(proxy: FaultProxy, options: ZooKeeperLockOptions = {}): ZooKeeperLock {
  return new ZooKeeperLock(`127.0.0.1:${proxy.port}`, {
    rootPath: newRoot(),
    sessionTimeoutMs: KEPT_SESSION_MS,
    unavailableAfterMs: CONDITION_BOUND_MS,
    ...options,
  });
}

/** Acquires a lock when it is free, then as a waiter; returns the last token. */
async function use(locks: ZooKeeperLock): Promise<bigint> {
  const first = await locks.acquire("n");
  const { lease } = await waiter(locks, "n");
  assertEquals(await first.release(), true);
  const second = await lease;
  assert(second.fencingToken > first.fencingToken);
  assertEquals(await second.release(), true);
  return second.fencingToken;
}

Deno.test("ZooKeeperLock restarts its request numbers at 1, on the same connection, before they overflow", async () => {
  const used = new Set<Requests>();
  const { send } = Requests.prototype;
  Requests.prototype.send = function <T>(this: Requests, ...args: Parameters<typeof send<T>>) {
    used.add(this);
    return send.apply(this, args) as Promise<T>;
  };
  using _ = { [Symbol.dispose]: () => void (Requests.prototype.send = send) };
  await using proxy = startProxy(server);
  const xids: number[] = [];
  const connections = new Set<number>();
  proxy.onRequest = operations((_operation, connection, xid) => {
    connections.add(connection);
    if (xid > 0) xids.push(xid);
  });
  await using locks = through(proxy);
  let token = await use(locks);
  assertEquals(
    xids[0],
    1,
    "number 0 should not be used: servers before 3.8 treat it as pending forever",
  );
  for (const left of [0, 1, 2, 3, 4, 5]) {
    for (const requests of used) requests.xid = MAX_XID - left - 1;
    const next = await use(locks);
    assert(next > token);
    token = next;
  }
  assertEquals(used.size, 1);
  assertEquals(connections.size, 1);
  const turns = xids.flatMap((xid, i) => xid < xids[i - 1]! && xid === 1 ? [xids[i - 1]] : []);
  assertEquals(turns, Array(6).fill(MAX_XID));
});

Deno.test("ZooKeeperLock completes the calls of an outage, even when the session expires in it", async () => {
  await using proxy = startProxy(server);
  const keys: SessionKey[] = [];
  proxy.onReply = sessionKeys((key) => void keys.push(key));
  const servers = countedServers(proxy);
  await using locks = new ZooKeeperLock(servers.list, {
    rootPath: newRoot(),
    sessionTimeoutMs: KEPT_SESSION_MS,
    unavailableAfterMs: CONDITION_BOUND_MS,
  });
  const lease = await locks.acquire("n");
  await proxy.refuse(true);
  proxy.cutAll();
  await waitUntil(
    "the client is cut off",
    () => proxy.connections === 0,
    CONDITION_BOUND_MS,
  );
  const asked = [locks.acquire("n"), locks.acquire("m")];
  const query = locks.query("n");
  const released = lease.release();
  await servers.triedAgain();
  await endSession(server.port, keys[0]!);
  await proxy.refuse(false);
  for (const lease of await Promise.all(asked)) await lease.release();
  assertEquals((await query).name, "n");
  // Either answer is right: the lease was valid at the call, and the session's end deleted the znode.
  assert(typeof await released === "boolean");
  assert(keys.at(-1)!.id !== keys[0]!.id);
});

Deno.test("ZooKeeperLock keeps its session and its lease when the connection is cut within any reply", async () => {
  const random = randomFrom("cuts");
  await using proxy = startProxy(server);
  await using locks = through(proxy);
  const ids = new Set<bigint>();
  const keys = sessionKeys(({ id }) => void ids.add(id));
  proxy.onReply = keys;
  const lease = await locks.acquire("n");
  /** Cuts the next reply. */
  const cutNext = (bytes: number) => {
    proxy.onReply = (chunk, connection) => {
      proxy.onReply = keys;
      return bytes < chunk.length ? { cutAfterBytes: bytes } : keys(chunk, connection);
    };
  };
  for (let i = 0; i < CUTS; i++) {
    cutNext(1 + Math.floor(random() * 88));
    await lease.renew();
    // The answer to the handshake, too: the package alone would read a part of it as "expired".
    cutNext(1 + Math.floor(random() * 40));
    proxy.cutAll();
    await lease.renew();
    lease.throwIfLost();
  }
  assertEquals(ids.size, 1, "the session should stay the same");
  assertEquals(await lease.release(), true);
});

Deno.test("ZooKeeperLock.acquire() rejects with a LockUnavailableError when a quota is exceeded", async () => {
  const rootPath = newRoot();
  const quota = `/zookeeper/quota${rootPath}`;
  await using locks = new ZooKeeperLock(server.connectString, {
    rootPath,
    sessionTimeoutMs: KEPT_SESSION_MS,
    unavailableAfterMs: scaled(2_000), // half of it is the time limit of a request
  });
  const lease = await locks.acquire("n");
  await withClient(server.connectString, async (client) => {
    const make = (path: string, data: string) =>
      called("Setting a quota", (done) => client.mkdirp(path, done)).then(() =>
        called("Setting a quota", (done) =>
          (client as unknown as {
            setData(path: string, data: Uint8Array, done: (error: unknown) => void): void;
          })
            .setData(path, Buffer.from(data), done))
      );
    await make(`${quota}/zookeeper_stats`, "count=3,bytes=0");
    await make(
      `${quota}/zookeeper_limits`,
      "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3",
    );
  });
  for (let i = 0; i < 2; i++) {
    const error = await assertRejects(() => locks.acquire("n"), LockUnavailableError);
    assertInstanceOf(error.cause, ZooKeeperError);
    assertEquals(error.cause.code, "QUOTA_EXCEEDED");
    assert(error.message.startsWith("Cannot use ZooKeeper"), error.message);
  }
  assertEquals(await lease.release(), true);
  await (await locks.acquire("n")).release();
});

Deno.test("ZooKeeperLock opens a new session when the servers have lost their data", async () => {
  await using empty = await startZooKeeper();
  const target = { hostname: "127.0.0.1", port: server.port };
  await using proxy = startProxy(target);
  await using locks = through(proxy, { sessionTimeoutMs: ENDING_SESSION_MS });
  for (let i = 0; i < 20; i++) await (await locks.acquire("n")).release();
  const lease = await locks.acquire("n");
  // The empty server refuses clients that have seen more writes than it has.
  target.port = empty.port;
  proxy.cutAll();
  await waitUntil("the lease is lost", () => lease.signal.aborted, CONDITION_BOUND_MS);
  assertInstanceOf(lease.signal.reason, LeaseLostError);
  assertEquals(lease.signal.reason.reason, "session-expired");
  // Its session, too, may end on a stalled machine.
  await waitUntil("a lock is released", async () => await (await locks.acquire("n")).release());
  await locks[Symbol.asyncDispose]();
  await nothingLeft(empty);
});

Deno.test("ZooKeeperLock sends its credentials first on every connection", async () => {
  const seen = new Map<number, string[]>();
  await using proxy = startProxy(server);
  proxy.onRequest = operations((operation, connection) => {
    seen.set(connection, [...seen.get(connection) ?? [], operation]);
  });
  const auth = { scheme: "digest", credentials: "holdfast:secret" };
  await using locks = through(proxy, { auth });
  const lease = await locks.acquire("n");
  for (let i = 0; i < 3; i++) {
    const waits = await waiter(locks, "n");
    proxy.cutAll();
    const asked = locks.tryAcquire("n");
    await lease.renew();
    assertEquals(await asked, null);
    waits.abort();
  }
  assertEquals(await lease.release(), true);
  assert(seen.size >= 4);
  for (const operations of seen.values()) assertEquals(operations.slice(0, 2), ["connect", "auth"]);
});

Deno.test("ZooKeeperLock sends its credentials once, however many attempts to connect have failed", async () => {
  const seen = new Map<number, string[]>();
  await using proxy = startProxy(server);
  const record = operations((operation, connection) => {
    seen.set(connection, [...seen.get(connection) ?? [], operation]);
  });
  proxy.onRequest = (chunk, connection) => {
    const verdict = record(chunk, connection);
    return connection.id <= 3 ? "cut" : verdict;
  };
  const auth = { scheme: "digest", credentials: "holdfast:secret" };
  await using locks = through(proxy, { auth });
  await (await locks.acquire("n")).release();
  assertEquals([...seen.keys()], [1, 2, 3, 4]);
  assertEquals(seen.get(4)!.filter((operation) => operation === "auth").length, 1);
});

Deno.test("ZooKeeperLock resumes its session only where its last answer is known", async () => {
  const zxids = new Map<number, bigint>();
  await using proxy = startProxy(server);
  proxy.onRequest = (chunk, { id }) => {
    // The request for the session: its length, a version, and the last zxid that was seen.
    if (!zxids.has(id)) zxids.set(id, new DataView(chunk.buffer, chunk.byteOffset).getBigInt64(8));
    return "pass";
  };
  await using locks = through(proxy);
  const lease = await locks.acquire("n");
  proxy.cutAll();
  await lease.renew();
  assertEquals(zxids.get(1), 0n);
  assert(zxids.get(2)! >= lease.fencingToken, `${zxids.get(2)} is before ${lease.fencingToken}`);
  assertEquals(await lease.release(), true);
});

Deno.test("ZooKeeperLock.acquire() leaves no orphaned znode below a chroot when an answer is lost", async () => {
  const chroot = newRoot();
  await using proxy = startProxy(server);
  await using locks = new ZooKeeperLock(`127.0.0.1:${proxy.port}${chroot}`, { rootPath: "/x" });
  await (await locks.acquire("n")).release();
  await observing(server.connectString, async (observer) => {
    for (let i = 0; i < 3; i++) {
      proxy.onReply = () => {
        proxy.onReply = undefined;
        return "cut";
      };
      await using _lease = await locks.acquire("n");
      assertEquals((await observer.children(`${chroot}/x/n`)).length, 1);
    }
    assertEquals(await observer.children(`${chroot}/x/n`), []);
  });
});
