import { assert, assertEquals } from "@std/assert";
import { LeaseEngine } from "../../core/lease/lease_engine.ts";
import { HeldLock } from "../../zookeeper/held_lock.ts";
import { OwnZnode } from "../../zookeeper/recipe/own_znode.ts";
import { ZooKeeperError } from "../../zookeeper/connection/failures.ts";
import { Session } from "../../zookeeper/session/session.ts";
import { SessionSuccession } from "../../zookeeper/session/session_succession.ts";
import { ZnodeCleanup } from "../../zookeeper/znode_cleanup.ts";
import { FakeClock } from "../../testing/core/fake_clock.ts";
import { FakeTransport, FakeTree } from "../../testing/zookeeper/fake_zookeeper.ts";

const LOCK_PATH = "/locks/n";

/** A lock that is held and guarded. */
async function holdLock() {
  const clock = new FakeClock();
  const engine = new LeaseEngine(clock);
  const tree = new FakeTree();
  tree.create("/locks");
  tree.create(LOCK_PATH);
  const transport = new FakeTransport(tree);
  const rootPath = "/locks";
  const session = new Session(transport, {
    clock,
    leases: engine,
    rootPath,
    heartbeatPath: "/locks/%session-x",
  });
  await session.prepareHeartbeat();
  transport.log.length = 0;
  const data = new Uint8Array();
  const znode = new OwnZnode({ session, lockPath: LOCK_PATH, data, isTry: false });
  await znode.create();
  const sessions = new SessionSuccession({
    clock,
    leases: engine,
    open: () => new FakeTransport(tree),
    transport: {
      listServers: () => Promise.resolve([]),
      tls: undefined,
      warnings: { warn: () => {} },
      sessionTimeoutMs: 10_000,
      requestTimeoutMs: undefined,
      unavailableAfterMs: 5_000,
      auth: undefined,
    },
    connectTimeoutMs: 5_000,
    rootPath,
  });
  const held = new HeldLock(clock, znode, new ZnodeCleanup(engine, sessions));
  const losses: string[] = [];
  held.guard({ lose: (reason) => void losses.push(reason) });
  return { clock, tree, transport, session, znode, held, losses };
}

Deno.test("HeldLock watches our znode after a tenth of the session timeout", async () => {
  const { clock, tree, transport, znode, losses } = await holdLock();
  await clock.pass(999);
  assertEquals(transport.log, ["create"]);
  await clock.pass(1);
  assertEquals(transport.log, ["create", "get"]);
  tree.delete(`${LOCK_PATH}/${znode.name}`);
  assertEquals(losses, ["stolen"]);
});

Deno.test("HeldLock sets the watch again when it was used up", async () => {
  const { clock, tree, transport, znode, losses } = await holdLock();
  await clock.pass(1_000);
  znode.watch.onWatchEvent("changed");
  assertEquals(transport.log, ["create", "get", "get"]);
  assertEquals(losses, []);
  tree.delete(`${LOCK_PATH}/${znode.name}`);
  assertEquals(losses, ["stolen"]);
});

Deno.test("HeldLock notices at a renewal that our znode is missing", async () => {
  const { tree, transport, znode, held, losses } = await holdLock();
  tree.delete(`${LOCK_PATH}/${znode.name}`);
  assertEquals(losses, [], "the znode is not watched yet");
  assertEquals((await held.renew()).state, "held");
  assertEquals(transport.log.slice(1, 3), ["get", "set"]);
  assertEquals(losses, ["stolen"]);
});

Deno.test("HeldLock.release() leaves no timer and no watch", async () => {
  const { clock, tree, transport, held, znode, losses } = await holdLock();
  const path = `${LOCK_PATH}/${znode.name}`;
  assertEquals(await held.release(), { state: "released" });
  assert(!tree.znodes.has(path));
  assertEquals(clock.held, 0);
  transport.become("connected");
  await clock.pass(10_000);
  assertEquals(transport.log, ["create", "delete"]);
  assertEquals(losses, []);
});

Deno.test("HeldLock.release() sends no second delete when the first one is answered late", async () => {
  const { transport, held } = await holdLock();
  const answered = Promise.withResolvers<void>();
  transport.answers = () => answered.promise;
  const attempts = [held.release(), held.release()];
  answered.resolve();
  assertEquals(await Promise.all(attempts), [{ state: "released" }, { state: "released" }]);
  assertEquals(await held.release(), { state: "released" });
  assertEquals(transport.log, ["create", "delete"]);
});

Deno.test("HeldLock.release() sends another delete when the first one is not answered", async () => {
  const { transport, held } = await holdLock();
  transport.answers = () => {
    transport.answers = () => {};
    throw new ZooKeeperError("CONNECTION_LOSS", "made by a test");
  };
  assertEquals((await held.release()).state, "unknown");
  assertEquals((await held.release()).state, "gone"); // The first one was executed.
  assertEquals(transport.log, ["create", "delete", "delete"]);
});

Deno.test("HeldLock.lapsed() gives up the session", async () => {
  const { transport, session, held } = await holdLock();
  assertEquals(held.lapsed(undefined), "session-expired");
  assert(session.isOver && transport.isDestroyed);
});
