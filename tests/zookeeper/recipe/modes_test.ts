/**
 * Random calls of both modes by several instances, on a tree in memory: the holders are always those that the
 * order of the entries says, whatever an instance knows of its own entries.
 */
import { assert, assertEquals } from "@std/assert";
import process from "node:process";
import type { LockMode } from "../../../mod.ts";
import { isSharedName, sortedEntries } from "../../../zookeeper/recipe/queue_order.ts";
import { randomFrom } from "../../../testing/processes/random.ts";
import { type FakeCall, FakeInstance } from "../../../testing/zookeeper/fake_instance.ts";
import { FakeTree, settle } from "../../../testing/zookeeper/fake_zookeeper.ts";

const PARENT = "/locks/n";
/** The soak runs the full figure. */
const RUNS = process.env["HOLDFAST_SOAK"] ? 2_000 : 25;
const STEPS = 40;

function newTree(): FakeTree {
  const tree = new FakeTree();
  tree.create("/locks");
  tree.create(PARENT);
  return tree;
}

async function settleAll(): Promise<void> {
  for (let i = 0; i < 4; i++) await settle();
}

interface Entry {
  readonly call: FakeCall;
  readonly mode: LockMode;
  readonly instance: FakeInstance;
}

/** The calls whose entries hold the lock: the shared ones at the front, or the first one. */
function holdersIn(tree: FakeTree, entries: readonly Entry[]): Entry[] {
  const names = sortedEntries(tree.children(PARENT).names).map(({ name }) => name);
  const firstExclusive = names.findIndex((name) => !isSharedName(name));
  const shared = firstExclusive === -1 ? names.length : firstExclusive;
  const holding = names.slice(0, Math.max(shared, 1)).map((name) => `${PARENT}/${name}`);
  return entries.filter(({ call }) => holding.includes(call.path));
}

/** No holder believes in its lease beside an exclusive one. */
function assertExclusive(entries: readonly Entry[], step: string): void {
  const held = entries.filter(({ call }) => call.granted);
  const exclusive = held.filter(({ mode }) => mode === "exclusive").length;
  assert(exclusive === 0 || held.length === 1, `${step}: ${exclusive} of ${held.length} exclusive`);
}

async function runOnce(random: () => number): Promise<void> {
  const tree = newTree();
  const instances = [
    await FakeInstance.open(tree),
    await FakeInstance.open(tree),
    await FakeInstance.open(tree),
  ];
  let entries: Entry[] = [];
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)]!;
  const enter = () => {
    const instance = pick(instances.slice(0, random() < 0.6 ? 2 : 3));
    const mode = random() < 0.6 ? "shared" : "exclusive";
    entries.push({ instance, mode, call: instance.call({ mode, isSilent: random() < 0.5 }) });
  };
  const leave = (chosen: Entry) => {
    entries = entries.filter((entry) => entry !== chosen);
    const { call } = chosen;
    if (call.granted) void call.release();
    else call.abort.abort(new Error("enough"));
    call.lease.catch(() => {});
  };
  for (let step = 0; step < STEPS; step++) {
    const holding = entries.filter(({ call }) => call.granted);
    const [instance, held] = [pick(instances), Promise.withResolvers<void>()];
    // Some deletes are executed late: a handoff within the instance does not wait for them.
    instance.transport.deletesAfter = random() < 0.3 ? held.promise : null;
    for (let many = random() * 3; many > 0; many--) {
      if (entries.length < 10 && random() < 0.5) enter();
      else if (holding.length > 0 && random() < 0.8) leave(pick(holding));
      else if (entries.length > 0) leave(pick(entries));
      holding.splice(0, holding.length, ...entries.filter(({ call }) => call.granted));
      if (random() < 0.5) await settle();
      assertExclusive(entries, `step ${step}`);
    }
    await settleAll();
    assertExclusive(entries, `step ${step}`);
    held.resolve();
    instance.transport.deletesAfter = null;
    await settleAll();
    const granted = entries.filter(({ call }) => call.granted);
    assertEquals(new Set(granted), new Set(holdersIn(tree, entries)), `step ${step}`);
  }
  while (entries.length > 0) {
    const granted = entries.filter(({ call }) => call.granted);
    assert(granted.length > 0, "nobody holds the lock");
    leave(pick(granted));
    await settleAll();
  }
  assertEquals(tree.children(PARENT).names, []);
}

Deno.test("Acquisition of both modes: the holders are those that the order of the entries says", async () => {
  const random = randomFrom("Entries of both modes");
  for (let run = 0; run < RUNS; run++) await runOnce(random);
});

/** An exclusive entry of another client. */
function foreign(tree: FakeTree): string {
  return tree.create(`${PARENT}/_c_${crypto.randomUUID()}-lock-`, true);
}

Deno.test("Acquisition of shared calls behind another instance's holder needs no request when that leaves", async () => {
  const tree = newTree();
  const holder = foreign(tree);
  const instance = await FakeInstance.open(tree);
  const calls: FakeCall[] = [];
  for (let i = 0; i < 3; i++) {
    calls.push(instance.call({ mode: "shared" }));
    await settleAll();
  }
  assertEquals(await instance.sent(() => tree.delete(holder)), []);
  assertEquals(calls.map(({ granted }) => granted), [true, true, true]);
  const writer = instance.call();
  await settleAll();
  for (const i of [1, 0, 2]) {
    assertEquals(writer.granted, false);
    await calls[i]!.release();
    await settleAll();
  }
  assertEquals(writer.granted, true);
  await writer.release();
});

Deno.test("Acquisition serves all shared waiters of an instance before the delete of its holder is answered", async () => {
  const tree = newTree();
  const instance = await FakeInstance.open(tree);
  const writer = instance.call();
  await settleAll();
  const calls: FakeCall[] = [];
  for (let i = 0; i < 3; i++) {
    calls.push(instance.call({ mode: "shared" }));
    await settleAll();
  }
  const executed = Promise.withResolvers<void>();
  instance.transport.deletesAfter = executed.promise;
  const released = writer.release();
  await settleAll();
  assertEquals(calls.map(({ granted }) => granted), [true, true, true]);
  executed.resolve();
  assertEquals(await released, true);
  instance.transport.deletesAfter = null;
  for (const call of calls) await call.release();
});
