import { assert, assertEquals, assertRejects } from "@std/assert";
import { LockUnavailableError } from "../../../core/errors.ts";
import { OutageBudget } from "../../../core/outage_budget.ts";
import { Contest } from "../../../zookeeper/recipe/lock_recipe.ts";
import { OwnZnode } from "../../../zookeeper/recipe/own_znode.ts";
import { MAX_SEQUENCE } from "../../../zookeeper/recipe/order.ts";
import { Session } from "../../../zookeeper/session/session.ts";
import {
  classifyFailure,
  ZooKeeperError,
  type ZooKeeperErrorCode,
} from "../../../zookeeper/transport/errors.ts";
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

function newContest(tree: FakeTree, isBrief = false) {
  const clock = new FakeClock();
  const transport = new FakeTransport(tree);
  const session = new Session(transport, {
    clock,
    rootPath: "/locks",
    beatPath: `/locks/%session-${crypto.randomUUID()}`,
    onProof: () => {},
    onOver: () => {},
  });
  const abort = new AbortController();
  const znode = new OwnZnode({ clock, session, parent: PARENT, data: new Uint8Array(), isBrief });
  const budget = new OutageBudget({
    clock,
    service: "ZooKeeper",
    lockName: "n",
    unavailableAfterMs: 5_000,
    signal: abort.signal,
    classify: classifyFailure,
  });
  const contest = new Contest({ clock, name: "n", znode, budget });
  return { clock, transport, session, znode, contest, abort };
}

function noOther(): Promise<Session> {
  throw new Error("The session is not over");
}

function queueOf(tree: FakeTree): string[] {
  return tree.children(PARENT).names.filter((name) => name.startsWith("_c_"));
}

async function isGoneError(promise: Promise<unknown>): Promise<void> {
  const error = await assertRejects(() => promise, ZooKeeperError);
  assertEquals(error.code, "OWN_ZNODE_GONE");
}

Deno.test("alone, the create and the listing are all that is asked, in one tick", async () => {
  const tree = newTree();
  const { transport, contest, znode } = newContest(tree);
  const entered = contest.enter();
  assertEquals(transport.log, ["create", "children"]);
  assertEquals((await entered).ahead, []);
  assertEquals(await contest.token(), tree.get(`${PARENT}/${znode.name}`).czxid);
  assertEquals(transport.log.length, 2);
});

Deno.test("the parent is made only when it is missing", async () => {
  const { transport, contest } = newContest(new FakeTree());
  assertEquals((await contest.enter()).ahead, []);
  assertEquals(transport.log, [
    ...["create", "children"],
    ...["createPersistent /locks/n", "createPersistent /locks", "createPersistent /locks/n"],
    ...["create", "children"],
  ]);
});

Deno.test("the last one ahead goes: the lock is ours without asking", async () => {
  const tree = newTree();
  const [a, b] = [newContest(tree), newContest(tree)];
  await a.contest.enter();
  const standing = await b.contest.enter();
  const next = b.contest.next(standing);
  await settle();
  const asked = b.transport.log.length;
  assertEquals(b.transport.log, ["create", "children", "get", "get"]);
  await a.znode.leave(noOther);
  assertEquals((await next).ahead, []);
  assertEquals(b.transport.log.length, asked);
  assertEquals(await b.contest.token(), tree.get(`${PARENT}/${b.znode.name}`).czxid);
  assertEquals(b.clock.timers, 0);
});

Deno.test("not the last one ahead goes: the queue is listed again", async () => {
  const tree = newTree();
  const [a, b, c] = [newContest(tree), newContest(tree), newContest(tree)];
  await a.contest.enter();
  await b.contest.enter();
  const next = c.contest.next(await c.contest.enter());
  await settle();
  await b.znode.leave(noOther);
  const { ahead, waiters } = await next;
  assertEquals([ahead.length, waiters], [1, 1]);
  assertEquals(c.transport.log.at(-1), "children");
});

Deno.test("who does not wait is refused by a holder or a waiter at once", async () => {
  const tree = newTree();
  const [a, b] = [newContest(tree), newContest(tree, true)];
  await a.contest.enter();
  assertEquals(await b.contest.wins(), false);
  assertEquals(b.transport.log, ["create", "children"]);
});

Deno.test("who does not wait lets those go first who do not either", async () => {
  const tree = newTree();
  const [holder, a, b] = [newContest(tree), newContest(tree, true), newContest(tree, true)];
  await holder.contest.enter();
  assertEquals(await a.contest.wins(), false);
  await holder.znode.leave(noOther);
  const wins = b.contest.wins();
  await settle();
  await a.znode.leave(noOther);
  assertEquals(await wins, true);
  assertEquals(await b.contest.token(), tree.get(`${PARENT}/${b.znode.name}`).czxid);
  assertEquals(b.clock.timers, 0);
});

Deno.test("who does not wait is refused by one of its kind who stays", async () => {
  const tree = newTree();
  const [a, b, c] = [newContest(tree, true), newContest(tree, true), newContest(tree, true)];
  assertEquals(await a.contest.wins(), true);
  const wins = b.contest.wins();
  await settle();
  assertEquals(b.clock.timers, 1);
  await b.clock.pass(101);
  assertEquals(await wins, false);
  assertEquals(b.clock.timers, 0);
  await b.znode.leave(noOther);
  // By now its znode is too old to be of somebody who is about to leave.
  tree.nowMs = 101;
  assertEquals(await c.contest.wins(), false);
  assertEquals(c.transport.log, ["create", "children", "get", "get"]);
  assertEquals(c.clock.timers, 0);
});

Deno.test("on another connection the queue is listed again", async () => {
  const tree = newTree();
  const [a, b] = [newContest(tree), newContest(tree)];
  await a.contest.enter();
  const next = b.contest.next(await b.contest.enter());
  await settle();
  b.transport.epoch++;
  await a.znode.leave(noOther);
  assertEquals((await next).ahead, []);
  assertEquals(b.transport.log.at(-1), "children");
});

Deno.test("nothing is ours if our own znode went before the one ahead, or after it", async () => {
  for (const isOwnFirst of [true, false]) {
    const tree = newTree();
    const [a, b] = [newContest(tree), newContest(tree)];
    await a.contest.enter();
    const next = b.contest.next(await b.contest.enter());
    await settle();
    const paths = [a, b].map(({ znode }) => `${PARENT}/${znode.name}`);
    for (const path of isOwnFirst ? paths.reverse() : paths) tree.delete(path);
    await isGoneError(next);
    assert(b.znode.isGone);
  }
});

Deno.test("an own znode that went before it was watched is not asked for again", async () => {
  const tree = newTree();
  const [a, b] = [newContest(tree), newContest(tree)];
  await a.contest.enter();
  const standing = await b.contest.enter();
  tree.delete(`${PARENT}/${b.znode.name}`);
  await isGoneError(b.contest.next(standing));
  assertEquals(b.transport.log.filter((request) => request === "get").length, 2);
});

Deno.test("a znode ahead that is gone before it is watched is no reason to wait", async () => {
  const tree = newTree();
  const [a, b] = [newContest(tree), newContest(tree)];
  await a.contest.enter();
  const standing = await b.contest.enter();
  await a.znode.leave(noOther);
  assertEquals((await b.contest.next(standing)).ahead, []);
});

Deno.test("an own znode that is not listed is not ours", async () => {
  const tree = newTree();
  const { transport, contest } = newContest(tree);
  transport.answers = (request) => {
    if (request !== "create") return;
    for (const name of queueOf(tree)) tree.delete(`${PARENT}/${name}`);
    // The listing is executed after it.
    return settle();
  };
  const entering = contest.enter();
  await isGoneError(entering);
});

for (const code of ["CONNECTION_LOSS", "TIMEOUT"] as ZooKeeperErrorCode[]) {
  Deno.test(`a create that was executed but not answered (${code}) is found`, async () => {
    const tree = newTree();
    const { clock, transport, contest, znode } = newContest(tree);
    let lost = 1;
    transport.answers = (request) => {
      if (request === "create" && lost-- > 0) throw refusal(code);
    };
    const entered = contest.enter();
    await clock.pass(1_000);
    assertEquals((await entered).ahead, []);
    assertEquals(queueOf(tree), [znode.name]);
    // One write before the search: a member that lags behind could miss the orphan.
    const search = transport.log.slice(2);
    assertEquals(search[0], "set");
    assertEquals(search.at(-1), "children");
    await znode.leave(noOther);
    assertEquals(queueOf(tree), []);
  });
}

Deno.test("a create that was not executed is sent again", async () => {
  const tree = newTree();
  const { transport, contest } = newContest(tree);
  let lost = 1;
  transport.answers = (request) => {
    if (request !== "create" || lost-- <= 0) return;
    for (const name of queueOf(tree)) tree.delete(`${PARENT}/${name}`);
    throw refusal("CONNECTION_LOSS");
  };
  assertEquals((await contest.enter()).ahead, []);
  assertEquals(queueOf(tree).length, 1);
});

Deno.test("of several znodes under our GUID the lowest is kept", async () => {
  const tree = newTree();
  const { transport, contest, znode } = newContest(tree);
  let lost = 1;
  transport.answers = (request) => {
    if (request !== "create" || lost-- <= 0) return;
    const [made] = queueOf(tree);
    tree.create(`${PARENT}/${made!.slice(0, -10)}`, true);
    throw refusal("CONNECTION_LOSS");
  };
  await contest.enter();
  assertEquals(queueOf(tree), [znode.name]);
  assert(znode.name!.endsWith("0000000000"));
});

Deno.test("who gives up after an unanswered create leaves nothing", async () => {
  const tree = newTree();
  const { transport, contest, znode, abort } = newContest(tree);
  transport.answers = async (request) => {
    if (request !== "create") return;
    abort.abort(new Error("enough"));
    await settle();
    throw refusal("CONNECTION_LOSS");
  };
  const error = await assertRejects(() => contest.enter());
  assertEquals((error as Error).message, "enough");
  assertEquals(queueOf(tree).length, 1);
  assertEquals((await znode.leave(noOther)).state, "released");
  assertEquals(queueOf(tree), []);
});

for (
  const [what, first] of [["at the last number", MAX_SEQUENCE], [
    "below zero",
    -MAX_SEQUENCE - 1,
  ]] as const
) {
  Deno.test(`a znode ${what} takes nothing`, async () => {
    const tree = newTree();
    tree.znodes.get(PARENT)!.nextSequence = first;
    const { contest, znode } = newContest(tree);
    const error = await assertRejects(() => contest.enter(), LockUnavailableError, "used up");
    assertEquals(error.lockName, "n");
    await znode.leave(noOther);
    assertEquals(queueOf(tree), []);
  });
}

Deno.test("a znode with a sibling's number takes nothing", async () => {
  const tree = newTree();
  const [a, b] = [newContest(tree), newContest(tree)];
  await a.contest.enter();
  tree.znodes.get(PARENT)!.nextSequence--;
  await assertRejects(() => b.contest.enter(), LockUnavailableError, "used up");
});

Deno.test("who waits asks now and then whether the server is alive, and not for ever", async () => {
  const tree = newTree();
  const [a, b] = [newContest(tree), newContest(tree)];
  await a.contest.enter();
  const next = b.contest.next(await b.contest.enter());
  next.catch(() => {});
  await b.clock.pass(b.session.pingEveryMs * 3 + 1);
  assertEquals(b.transport.log.slice(4), ["get", "get", "get"]);
  b.transport.answers = () => {
    throw refusal("NOT_CONNECTED");
  };
  await b.clock.pass(b.session.pingEveryMs + 6_000);
  const error = await assertRejects(() => next, LockUnavailableError, "does not answer in time");
  assert((error.cause as ZooKeeperError).code === "NOT_CONNECTED");
});
