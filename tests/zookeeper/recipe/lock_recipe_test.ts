import { assert, assertEquals, assertRejects } from "@std/assert";
import type { WaitInfo } from "../../../core/contract/distributed_lock.ts";
import { LockSetupError, LockUnavailableError } from "../../../core/contract/errors.ts";
import { OutageBudget } from "../../../core/time/outage_budget.ts";
import { LockRecipe } from "../../../zookeeper/recipe/lock_recipe.ts";
import { OwnZnode } from "../../../zookeeper/recipe/own_znode.ts";
import { MAX_SEQUENCE } from "../../../zookeeper/recipe/order.ts";
import { SharedQueue } from "../../../zookeeper/recipe/shared_queues.ts";
import { Session } from "../../../zookeeper/session/session.ts";
import {
  classifyFailure,
  ZooKeeperError,
  type ZooKeeperErrorCode,
} from "../../../zookeeper/connection/failures.ts";
import { FakeClock } from "../../../testing/core/fake_clock.ts";
import {
  FakeTransport,
  FakeTree,
  refusal,
  settle,
} from "../../../testing/zookeeper/fake_zookeeper.ts";

const PARENT = "/locks/n";

function newTree(): FakeTree {
  const tree = new FakeTree();
  tree.create("/locks");
  tree.create(PARENT);
  return tree;
}

function openRecipe(tree: FakeTree, isTry = false) {
  const clock = new FakeClock();
  const transport = new FakeTransport(tree);
  const session = new Session(transport, {
    clock,
    leases: { extendAll: () => {}, loseAll: () => {} },
    rootPath: "/locks",
    heartbeatPath: `/locks/%session-${crypto.randomUUID()}`,
  });
  // As the first call of a session does. The calls here are later ones.
  void session.prepareHeartbeat();
  transport.log.length = 0;
  const abort = new AbortController();
  const queue = new SharedQueue(session, PARENT);
  const znode = new OwnZnode({ session, lockPath: PARENT, data: new Uint8Array(), isTry });
  const budget = new OutageBudget({
    clock,
    service: "ZooKeeper",
    lockName: "n",
    unavailableAfterMs: 5_000,
    signal: abort.signal,
    classify: classifyFailure,
  });
  const recipe = new LockRecipe({ clock, name: "n", znode, budget, queue });
  return { clock, transport, session, znode, recipe, abort };
}

/** Deletes a znode in its own session, as a release does. */
async function leave(znode: OwnZnode): Promise<string> {
  const current = () => Promise.reject(new Error("The session is not over"));
  return (await znode.delete({ current })).state;
}

function queueOf(tree: FakeTree): string[] {
  return tree.children(PARENT).names.filter((name) => name.startsWith("_c_"));
}

async function isGoneError(promise: Promise<unknown>): Promise<void> {
  const error = await assertRejects(() => promise, ZooKeeperError);
  assertEquals(error.code, "OWN_ZNODE_GONE");
}

Deno.test("LockRecipe.waitForTurn() sends the create and the listing in one tick, and no more when alone", async () => {
  const tree = newTree();
  const { transport, recipe, znode } = openRecipe(tree);
  const turn = recipe.waitForTurn();
  assertEquals(transport.log, ["create", "children"]);
  await turn;
  assertEquals(await recipe.fencingToken(), tree.get(`${PARENT}/${znode.name}`).czxid);
  assertEquals(transport.log.length, 2);
});

Deno.test("LockRecipe.waitForTurn() creates the lock's znode only when it is missing", async () => {
  const { transport, recipe, session } = openRecipe(new FakeTree());
  await session.prepareHeartbeat();
  transport.log.length = 0;
  await recipe.waitForTurn();
  assertEquals(transport.log, [
    ...["create", "children"],
    "createPersistent /locks/n",
    ...["create", "children"],
  ]);
});

Deno.test("LockRecipe.waitForTurn() sends nothing when the only znode ahead is deleted", async () => {
  const tree = newTree();
  const [a, b] = [openRecipe(tree), openRecipe(tree)];
  await a.recipe.waitForTurn();
  const turn = b.recipe.waitForTurn();
  await settle();
  const asked = b.transport.log.length;
  assertEquals(b.transport.log, ["create", "children", "get", "get"]);
  await leave(a.znode);
  await turn;
  assertEquals(b.transport.log.length, asked);
  assertEquals(await b.recipe.fencingToken(), tree.get(`${PARENT}/${b.znode.name}`).czxid);
  assertEquals(b.clock.held, 0);
});

Deno.test("LockRecipe.waitForTurn() lists the queue again when another waiter leaves", async () => {
  const tree = newTree();
  const [a, b, c] = [openRecipe(tree), openRecipe(tree), openRecipe(tree)];
  await a.recipe.waitForTurn();
  const earlier = b.recipe.waitForTurn();
  await settle();
  const waits: WaitInfo[] = [];
  const turn = c.recipe.waitForTurn((info) => void waits.push(info));
  await settle();
  b.abort.abort(new Error("enough"));
  await assertRejects(() => earlier, Error, "enough");
  await leave(b.znode);
  await settle();
  assertEquals(waits, [{ position: 2, waiters: 2 }, { position: 1, waiters: 1 }]);
  assertEquals(c.transport.log.slice(4), ["children", "get"]);
  await leave(a.znode);
  await turn;
});

Deno.test("LockRecipe.waitForTurn() reports each position once", async () => {
  const tree = newTree();
  const [a, b] = [openRecipe(tree), openRecipe(tree)];
  await a.recipe.waitForTurn();
  const positions: (number | undefined)[] = [];
  const turn = b.recipe.waitForTurn(({ position }) => void positions.push(position));
  await settle();
  b.transport.become("connected"); // Wakes the waiter, which lists the queue again.
  await settle();
  assertEquals(b.transport.log.filter((request) => request === "children").length, 2);
  assertEquals(positions, [1]);
  await leave(a.znode);
  await turn;
});

Deno.test("LockRecipe.tryWin() returns false at once behind a holder or a waiter", async () => {
  const tree = newTree();
  const [a, b] = [openRecipe(tree), openRecipe(tree, true)];
  await a.recipe.waitForTurn();
  assertEquals(await b.recipe.tryWin(), false);
  assertEquals(b.transport.log, ["create", "children"]);
});

Deno.test("LockRecipe.tryWin() wins when an earlier tryAcquire() without the lock leaves", async () => {
  const tree = newTree();
  const [holder, a, b] = [openRecipe(tree), openRecipe(tree, true), openRecipe(tree, true)];
  await holder.recipe.waitForTurn();
  assertEquals(await a.recipe.tryWin(), false);
  await leave(holder.znode);
  const wins = b.recipe.tryWin();
  await settle();
  await leave(a.znode);
  assertEquals(await wins, true);
  assertEquals(await b.recipe.fencingToken(), tree.get(`${PARENT}/${b.znode.name}`).czxid);
  assertEquals(b.clock.held, 0);
});

Deno.test("LockRecipe.tryWin() returns false when an earlier tryAcquire() holds the lock", async () => {
  const tree = newTree();
  const [a, b, c] = [openRecipe(tree, true), openRecipe(tree, true), openRecipe(tree, true)];
  assertEquals(await a.recipe.tryWin(), true);
  const wins = b.recipe.tryWin();
  await settle();
  assertEquals(b.clock.held, 1);
  await b.clock.pass(101);
  assertEquals(await wins, false);
  assertEquals(b.clock.held, 0);
  await leave(b.znode);
  // By now its znode is too old: it must be the holder's.
  tree.nowMs = 101;
  assertEquals(await c.recipe.tryWin(), false);
  assertEquals(c.transport.log, ["create", "children", "get", "get"]);
  assertEquals(c.clock.held, 0);
});

Deno.test("LockRecipe.waitForTurn() lists the queue again on another connection", async () => {
  const tree = newTree();
  const [a, b] = [openRecipe(tree), openRecipe(tree)];
  await a.recipe.waitForTurn();
  const turn = b.recipe.waitForTurn();
  await settle();
  b.transport.epoch++;
  await leave(a.znode);
  await turn;
  assertEquals(b.transport.log.at(-1), "children");
});

Deno.test("LockRecipe.waitForTurn() rejects if our znode is deleted before or after the one ahead", async () => {
  for (const isOwnFirst of [true, false]) {
    const tree = newTree();
    const [a, b] = [openRecipe(tree), openRecipe(tree)];
    await a.recipe.waitForTurn();
    const turn = b.recipe.waitForTurn();
    await settle();
    const paths = [a, b].map(({ znode }) => `${PARENT}/${znode.name}`);
    for (const path of isOwnFirst ? paths.reverse() : paths) tree.delete(path);
    await isGoneError(turn);
    assertEquals(b.znode.watch.state, "deleted");
  }
});

Deno.test("LockRecipe.waitForTurn() rejects at once if only our znode is deleted", async () => {
  const tree = newTree();
  const [a, b] = [openRecipe(tree), openRecipe(tree)];
  await a.recipe.waitForTurn();
  const turn = b.recipe.waitForTurn();
  await settle();
  tree.delete(`${PARENT}/${b.znode.name}`);
  await isGoneError(turn);
  assertEquals(b.clock.held, 0);
});

Deno.test("LockRecipe.waitForTurn() rejects if our znode is deleted before it is watched", async () => {
  const tree = newTree();
  const [a, b] = [openRecipe(tree), openRecipe(tree)];
  await a.recipe.waitForTurn();
  await isGoneError(b.recipe.waitForTurn(() => tree.delete(`${PARENT}/${b.znode.name}`)));
  assertEquals(b.transport.log.filter((request) => request === "get").length, 2);
});

Deno.test("LockRecipe.waitForTurn() does not wait for a znode that is deleted before it is watched", async () => {
  const tree = newTree();
  const [a, b] = [openRecipe(tree), openRecipe(tree)];
  await a.recipe.waitForTurn();
  await b.recipe.waitForTurn(() => tree.delete(`${PARENT}/${a.znode.name}`));
});

Deno.test("LockRecipe.waitForTurn() rejects if our znode is not listed", async () => {
  const tree = newTree();
  const { transport, recipe } = openRecipe(tree);
  transport.answers = (request) => {
    if (request !== "create") return;
    for (const name of queueOf(tree)) tree.delete(`${PARENT}/${name}`);
    // The listing is executed after the delete.
    return settle();
  };
  await isGoneError(recipe.waitForTurn());
});

for (const code of ["CONNECTION_LOSS", "TIMEOUT"] as ZooKeeperErrorCode[]) {
  Deno.test(`LockRecipe.waitForTurn() finds the znode of an unanswered create (${code})`, async () => {
    const tree = newTree();
    const { clock, transport, recipe, znode } = openRecipe(tree);
    let lost = 1;
    transport.answers = (request) => {
      if (request === "create" && lost-- > 0) throw refusal(code);
    };
    const turn = recipe.waitForTurn();
    await clock.pass(1_000);
    await turn;
    assertEquals(queueOf(tree), [znode.name]);
    // One write before the search: a server that lags behind could miss the znode.
    const search = transport.log.slice(2);
    assertEquals(search[0], "set");
    assertEquals(search.at(-1), "children");
    await leave(znode);
    assertEquals(queueOf(tree), []);
  });
}

Deno.test("LockRecipe.waitForTurn() sends a create that was not executed again", async () => {
  const tree = newTree();
  const { transport, recipe } = openRecipe(tree);
  let lost = 1;
  transport.answers = (request) => {
    if (request !== "create" || lost-- <= 0) return;
    for (const name of queueOf(tree)) tree.delete(`${PARENT}/${name}`);
    throw refusal("CONNECTION_LOSS");
  };
  await recipe.waitForTurn();
  assertEquals(queueOf(tree).length, 1);
});

Deno.test("LockRecipe.waitForTurn() keeps the lowest of several znodes with our GUID", async () => {
  const tree = newTree();
  const { transport, recipe, znode } = openRecipe(tree);
  let lost = 1;
  transport.answers = (request) => {
    if (request !== "create" || lost-- <= 0) return;
    const [made] = queueOf(tree);
    tree.create(`${PARENT}/${made!.slice(0, -10)}`, true);
    throw refusal("CONNECTION_LOSS");
  };
  await recipe.waitForTurn();
  assertEquals(queueOf(tree), [znode.name]);
  assert(znode.name!.endsWith("0000000000"));
});

Deno.test("OwnZnode.delete() deletes the znode of an unanswered create", async () => {
  const tree = newTree();
  const { transport, recipe, znode, abort } = openRecipe(tree);
  transport.answers = async (request) => {
    if (request !== "create") return;
    abort.abort(new Error("enough"));
    await settle();
    throw refusal("CONNECTION_LOSS");
  };
  const error = await assertRejects(() => recipe.waitForTurn());
  assertEquals((error as Error).message, "enough");
  assertEquals(queueOf(tree).length, 1);
  assertEquals(await leave(znode), "released");
  assertEquals(queueOf(tree), []);
});

for (
  const [what, first] of [["the last one", MAX_SEQUENCE], [
    "below zero",
    -MAX_SEQUENCE - 1,
  ]] as const
) {
  Deno.test(`LockRecipe.waitForTurn() rejects if the sequence number is ${what}`, async () => {
    const tree = newTree();
    tree.znodes.get(PARENT)!.nextSequence = first;
    const { recipe, znode } = openRecipe(tree);
    const error = await assertRejects(() => recipe.waitForTurn(), LockSetupError, "used up");
    assertEquals(error.lockName, "n");
    await leave(znode);
    assertEquals(queueOf(tree), []);
  });
}

Deno.test("LockRecipe.waitForTurn() rejects if a sibling has the same sequence number", async () => {
  const tree = newTree();
  const [a, b] = [openRecipe(tree), openRecipe(tree)];
  await a.recipe.waitForTurn();
  tree.znodes.get(PARENT)!.nextSequence--;
  await assertRejects(() => b.recipe.waitForTurn(), LockSetupError, "used up");
});

Deno.test("LockRecipe.waitForTurn() checks the server from time to time, and rejects if an outage lasts too long", async () => {
  const tree = newTree();
  const [a, b] = [openRecipe(tree), openRecipe(tree)];
  await a.recipe.waitForTurn();
  const turn = b.recipe.waitForTurn();
  turn.catch(() => {});
  await settle();
  b.transport.silentMs = b.session.checkEveryMs;
  await b.clock.pass(b.session.checkEveryMs * 3 + 1);
  assertEquals(b.transport.log.slice(4), ["get", "get", "get"]);
  b.transport.answers = () => {
    throw refusal("NOT_CONNECTED");
  };
  b.transport.become("suspended");
  await b.clock.pass(6_000);
  const error = await assertRejects(() => turn, LockUnavailableError, "NOT_CONNECTED");
  assert((error.cause as ZooKeeperError).code === "NOT_CONNECTED");
});
