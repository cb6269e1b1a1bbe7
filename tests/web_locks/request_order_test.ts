/**
 * The order in which callbacks of one client begin, whatever order the answers come in.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { FakeClock, FakeLock } from "../../fake/mod.ts";
import { type DistributedLock, MemoryLock } from "../../mod.ts";
import { settle } from "../../testing/core/fake_clock.ts";
import { webLocks } from "../../web_locks/mod.ts";
import { RequestOrder } from "../../web_locks/request_order.ts";

/** Requests that are under way, and which of their callbacks have begun. */
function requests(count: number) {
  const order = new RequestOrder();
  const begun: number[] = [];
  const answers = Array.from({ length: count }, (_, i) => order.enter(`${i}`));
  const at = (i: number) => answers[i]!;
  const grant = (i: number) => at(i).granted().then(() => void begun.push(i));
  return { order, begun, at, grant };
}

Deno.test("RequestOrder: grants begin in the order of their requests", async () => {
  const { begun, grant } = requests(3);
  const all = [grant(2), grant(0)];
  await Promise.resolve();
  assertEquals(begun, []);
  await Promise.all([...all, grant(1)]);
  assertEquals(begun, [0, 1, 2]);
});

Deno.test("RequestOrder: a waiter begins after those that did not have to wait", async () => {
  const { begun, at, grant } = requests(2);
  at(0).waits();
  await Promise.all([grant(0), grant(1)]);
  assertEquals(begun, [1, 0]);
});

Deno.test("RequestOrder: a request that fails holds up nobody", async () => {
  const { order, begun, at, grant } = requests(2);
  const granted = grant(1);
  const answered = order.answered();
  at(0).end();
  await Promise.all([granted, answered]);
  assertEquals(begun, [1]);
});

Deno.test("RequestOrder: a grant is not held back for long, and one without others not at all", async () => {
  const { begun, grant } = requests(2);
  await grant(1); // the other one is never answered
  assertEquals(begun, [1]);
  const { order } = requests(0);
  await order.enter("n").granted();
  await order.answered();
});

Deno.test("RequestOrder: a release waits for the requests of its name, and for no others", async () => {
  const { order, at } = requests(2);
  await order.mayRelease("n");
  const released: string[] = [];
  const releasing = ["0", "1"].map((name) =>
    order.mayRelease(name).then(() => released.push(name))
  );
  at(1).waits();
  await releasing[1];
  assertEquals(released, ["1"]);
  at(0).end();
  await releasing[0];
});

Deno.test("RequestOrder: ten thousand requests cost no more than their number", async () => {
  const { begun, grant } = requests(10_000);
  const heapBytes = Deno.memoryUsage().heapUsed;
  const all = Array.from({ length: 10_000 }, (_, i) => grant(9_999 - i));
  assert(
    Deno.memoryUsage().heapUsed - heapBytes < 100_000_000,
    "each grant has a place of its own",
  );
  await Promise.all(all);
  assertEquals(begun, Array.from({ length: 10_000 }, (_, i) => i));
});

/** The same locks, but requests for one name are sent when `sent` resolves. */
function withLateRequest(
  locks: MemoryLock | FakeLock,
  late: string,
  sent: Promise<void>,
): DistributedLock {
  const request = async (name: string, ...rest: unknown[]) => {
    if (name === late) await sent;
    return await (locks.request as CallableFunction)(name, ...rest);
  };
  return Object.assign(Object.create(locks), { request });
}

Deno.test("webLocks(): a callback never begins when its lock is lost, or its signal aborts, before that", async () => {
  await using memory = new MemoryLock();
  const locks = webLocks(withLateRequest(memory, "silent", new Promise(() => {})));
  locks.request("silent", () => {}).catch(() => {}); // the next ones wait for its answer, for a while
  /** Within one turn of the event loop: the wait for the silent one ends by a timer. */
  const isHeld = async (name: string) => {
    while ((await memory.query(name)).holderCount === 0);
  };
  const begun: string[] = [];
  const robbed = assertRejects(
    () => locks.request("a", () => void begun.push("a")),
    DOMException,
    "a",
  );
  await isHeld("a");
  await memory.request("a", { steal: true }, () => robbed);
  const controller = new AbortController();
  const aborted = assertRejects(
    () => locks.request("b", { signal: controller.signal }, () => void begun.push("b")),
    Error,
    "enough",
  );
  await isHeld("b");
  controller.abort(new Error("enough"));
  await aborted;
  await locks.request("c", () => {}); // the callbacks of the others would have begun before
  assertEquals(begun, []);
  assertEquals((await memory.query("b")).holders, []);
});

Deno.test("webLocks(): a request with ifAvailable that gets null begins in the order of the calls", async () => {
  await using memory = new MemoryLock();
  await using _held = await memory.acquire("a");
  const gate = Promise.withResolvers<void>();
  const locks = webLocks(withLateRequest(memory, "late", gate.promise));
  const begun: string[] = [];
  const request = (name: string, ifAvailable: boolean) =>
    locks.request(name, { ifAvailable }, (lock) => void begun.push(`${name} ${lock !== null}`));
  const all = [request("late", false), request("a", true), request("b", false)];
  while ((await memory.query("b")).holderCount === 0); // the answer to "a" has come before
  gate.resolve();
  await Promise.all(all);
  assertEquals(begun, ["late true", "a false", "b true"]);
});

Deno.test("RequestOrder: a request that comes between two answers does not change their order", async () => {
  const { order, begun, grant } = requests(2);
  const second = grant(1);
  const between = order.enter("later");
  await Promise.all([second, grant(0)]);
  assertEquals(begun, [0, 1]);
  between.end();
});

Deno.test("RequestOrder: a grant that has nothing to wait for does not overtake one that has just ended its wait", async () => {
  const { order, begun, at, grant } = requests(2);
  const second = grant(1);
  const third = order.enter("later");
  at(0).waits(); // ends the wait of the second one
  await Promise.all([second, third.granted().then(() => void begun.push(2))]);
  assertEquals(begun, [1, 2]);
});

Deno.test("webLocks() begins a callback under a lease that a suspension has left unproven only once it is proven", async () => {
  for (const isGone of [true, false]) {
    const clock = new FakeClock();
    await using fake = new FakeLock({ clock, ttlMs: 3_000 });
    const locks = webLocks(withLateRequest(fake, "silent", new Promise(() => {})));
    locks.request("silent", () => {}).catch(() => {}); // the next one waits for its answer, for a while
    const begun: boolean[] = [];
    const call = locks.request("n", ({ lease }) => void begun.push(lease.isHeld));
    call.catch(() => {}); // it is awaited later
    while ((await fake.query("n")).holderCount === 0); // within one turn, as above
    await settle(); // the lease has been looked at, and its callback waits
    clock.suspend(isGone ? 6_000 : 1_500);
    if (isGone) await assertRejects(() => call, DOMException);
    else await call;
    assertEquals(begun, isGone ? [] : [true]);
  }
});
