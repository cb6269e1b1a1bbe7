/**
 * The tests of the recipes that hold on every strategy.
 *
 * @module
 */
import { assert, assertEquals, assertInstanceOf, assertRejects } from "@std/assert";
import { type DistributedLock, type Lease, LeaseLostError } from "../../mod.ts";
import { lead, type LeaderChange, runOnce } from "../../recipes/mod.ts";
import { afterAll, beforeAll, registerTest } from "../runtime/tests.ts";
import { untilShown, watchStalls } from "../processes/stalls.ts";
import { pause, waitUntil } from "../servers/wait.ts";
import { LONG_TTL_MS, scaled } from "../time.ts";
import type { Arena, Harness } from "../conformance/harness.ts";

const NAME = "report";
/** For marks whose end the test waits for. */
const KEEP_MS = scaled(600);

const TESTS: Readonly<Record<string, (arena: Arena) => Promise<void>>> = {
  "runOnce() runs the work in one of two clients, and keeps the lock after it": runsOnce,
  "runOnce() frees the lock when keepMs is over": endsMark,
  "runOnce() holds the lock while the work takes longer than keepMs, then frees it": runsLong,
  "runOnce() rejects with the error of the work, and keeps the lock": keepsAfterError,
  "runOnce() with a tick runs the next tick while the last one runs": runsNextTick,
  "runOnce() rejects if the lease is lost while the work runs": rejectsLoss,
  "lead() lets one of two clients lead, and the other one when that ends": leadsInTurn,
  "lead() tells a loss at once, and waits until the work has ended": tellsLoss,
  "lead() leads again after an error and after a return": leadsAgain,
  "lead() rejects when the lock manager is disposed": endsWithLocks,
};

/** Registers the tests for a strategy. */
export function recipes(
  { name, start, stop, arena }: Pick<Harness, "name" | "start" | "stop" | "arena">,
): void {
  beforeAll(start);
  afterAll(stop);
  for (const [title, test] of Object.entries(TESTS)) {
    registerTest(`${name}: ${title}`, async () => {
      await using place = await arena();
      await test(place);
    });
  }
}

async function runsOnce(arena: Arena): Promise<void> {
  const [locks, other] = [await arena.client(), await arena.client()];
  const options = { keepMs: LONG_TTL_MS };
  const never = () => assert(false, "the work must not run twice");
  const result = await runOnce(locks, NAME, options, async (lease) => {
    assertEquals(lease.name, NAME);
    lease.throwIfLost();
    assertEquals(await runOnce(other, NAME, options, never), { ran: false });
    return 7;
  });
  assertEquals(result, { ran: true, value: 7 });
  assertEquals(await runOnce(locks, NAME, options, never), { ran: false });
  assertEquals(await runOnce(other, NAME, options, never), { ran: false });
  assertEquals(await runOnce(other, "another", options, () => "free"), {
    ran: true,
    value: "free",
  });
  if (locks === other) return; // in memory all clients are one
  await locks[Symbol.asyncDispose]();
  // Only Redis keeps the mark: elsewhere a lock ends with its owner.
  const { ran } = await runOnce(other, NAME, options, () => {});
  assertEquals(ran, !other.capabilities.attach);
  if (other.capabilities.attach) await freeMarks(other, arena, [NAME, "another"]);
}

/** Ends the marks that outlive their clients, so that nothing is left. */
async function freeMarks(locks: DistributedLock, arena: Arena, names: string[]): Promise<void> {
  for (const name of names) await arena.lose({ name } as Lease);
  for (const name of names) assertEquals((await locks.query(name)).holders, []);
}

/** Waits until the lock is free. Asserts that it was kept for long enough since `startMs`. */
async function isKeptSince(startMs: number, locks: DistributedLock): Promise<void> {
  await waitUntil("the lock is free", async () => {
    return (await runOnce(locks, NAME, { keepMs: KEEP_MS }, () => {})).ran;
  });
  const keptMs = performance.now() - startMs;
  assert(keptMs >= KEEP_MS, `kept for ${keptMs} ms only`);
}

async function endsMark(arena: Arena): Promise<void> {
  const [locks, other] = [await arena.client(), await arena.client()];
  const startMs = performance.now();
  await runOnce(locks, NAME, { keepMs: KEEP_MS }, () => {});
  await isKeptSince(startMs, other);
}

async function runsLong(arena: Arena): Promise<void> {
  const [locks, other] = [await arena.client(), await arena.client()];
  // On Redis keepMs is also the TTL. The first renewal that goes beyond keepMs lasts until 1.67 × keepMs: the
  // work takes longer, so it needs another one.
  const keepMs = scaled(locks.capabilities.attach ? 1_500 : 1_000);
  const workMs = locks.capabilities.attach ? 1.8 * keepMs : 1.2 * keepMs;
  await untilShown(async () => {
    using stalls = watchStalls();
    const startMs = performance.now();
    let tries = 0;
    const running = runOnce(locks, NAME, { keepMs }, async (lease) => {
      await waitUntil("the work has taken longer than keepMs", async () => {
        tries++;
        const { ran } = await runOnce(other, NAME, { keepMs }, () => {});
        lease.throwIfLost(); // after a loss the other one may run
        assertEquals(ran, false);
        return performance.now() - startMs > workMs;
      });
      return "done";
    });
    const result = await running.catch((error: unknown) => error);
    if (result instanceof LeaseLostError && stalls.longestMs > keepMs / 4) {
      await waitUntil("it is free", async () => (await other.query(NAME)).holderCount === 0);
      return "stalled";
    }
    if (result instanceof Error) throw result;
    // A call that itself took keepMs has not run it.
    if (tries < 2 && stalls.longestMs > keepMs / 4) return "stalled";
    assertEquals(result, { ran: true, value: "done" });
    assert(tries > 1);
    return "shown";
  });
  await untilShown(async () => {
    using stalls = watchStalls();
    const { ran } = await runOnce(other, NAME, { keepMs: KEEP_MS }, () => {});
    if (!ran && stalls.longestMs > KEEP_MS / 4) return "stalled";
    assertEquals(ran, true);
    return "shown";
  });
}

async function keepsAfterError(arena: Arena): Promise<void> {
  const [locks, other] = [await arena.client(), await arena.client()];
  const fail = () => Promise.reject(new RangeError("the work has failed"));
  await untilShown(async () => {
    using stalls = watchStalls();
    const startMs = performance.now();
    const failing = runOnce(locks, NAME, { keepMs: KEEP_MS }, fail);
    const outcome = await failing.catch((error: unknown) => error);
    // A call that itself took keepMs has not run it.
    if (!(outcome instanceof Error) && stalls.longestMs > KEEP_MS / 4) return "stalled";
    assertInstanceOf(outcome, RangeError, "has failed");
    await isKeptSince(startMs, other);
    return "shown";
  });
}

async function runsNextTick(arena: Arena): Promise<void> {
  const [locks, other] = [await arena.client(), await arena.client()];
  const keepMs = LONG_TTL_MS;
  const tick = new Date();
  const next = new Date(tick.getTime() + 1);
  const result = await runOnce(locks, NAME, { keepMs, tick }, async ({ name }) => {
    assertEquals(name, `${NAME}@${tick.toISOString()}`);
    assertEquals(await runOnce(other, NAME, { keepMs, tick }, () => {}), { ran: false });
    return await runOnce(other, NAME, { keepMs, tick: next }, () => "next");
  });
  assertEquals(result, { ran: true, value: { ran: true, value: "next" } });
  // A tick that is too far away by this clock: another process may have run it, and its mark has ended.
  for (const awayMs of [-keepMs - 1, keepMs + 60_000]) {
    const tick = new Date(Date.now() + awayMs);
    assertEquals(await runOnce(other, NAME, { keepMs, tick }, () => {}), { ran: false });
  }
  if (!other.capabilities.attach) return;
  await freeMarks(other, arena, [tick, next].map((each) => `${NAME}@${each.toISOString()}`));
}

async function rejectsLoss(arena: Arena): Promise<void> {
  const locks = await arena.client();
  await assertRejects(
    () =>
      runOnce(locks, NAME, { keepMs: scaled(2_000) }, async (lease) => {
        await arena.lose(lease);
        await waitUntil("the signal has aborted", () => lease.signal.aborted);
      }),
    LeaseLostError,
  );
}

/** A candidate, and what it was told. */
interface Candidate extends AsyncDisposable {
  readonly changes: LeaderChange[];
  readonly states: () => string[];
  readonly stop: () => Promise<void>;
}

/** Stands for leader. The work ends at its signal, unless it is given. */
function stand(
  locks: DistributedLock,
  work: (lease: Lease, signal: AbortSignal) => unknown = untilAborted,
): Candidate {
  const changes: LeaderChange[] = [];
  const stopped = new AbortController();
  const ended = lead(locks, NAME, work, {
    signal: stopped.signal,
    onChange: (change) => {
      changes.push(change);
      throw new Error("A listener that fails");
    },
  });
  const stop = () => {
    stopped.abort(new Error("stopped"));
    return ended;
  };
  return {
    changes,
    states: () => changes.map(({ state }) => state),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function untilAborted(_lease: Lease, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve());
  });
}

function isLeading({ changes }: Candidate): boolean {
  return changes.at(-1)?.state === "leading";
}

async function leadsInTurn(arena: Arena): Promise<void> {
  const [locks, other] = [await arena.client(), await arena.client()];
  await using first = stand(locks);
  await waitUntil("the first leads", () => isLeading(first));
  await using second = stand(other);
  await waitUntil("the second waits", () => second.states().includes("waiting"));
  assertEquals(first.states(), ["leading"]);
  await first.stop();
  assertEquals(first.states(), ["leading", "lost"]);
  const lost = first.changes[1]!;
  assert(lost.state === "lost" && (lost.reason as Error).message === "stopped");
  await waitUntil("the second leads", () => isLeading(second));
  assertEquals(second.states(), ["waiting", "leading"]);
  await second.stop();
  assertEquals((await other.query(NAME)).holders, []);
}

async function tellsLoss(arena: Arena): Promise<void> {
  const locks = await arena.client();
  let running = 0;
  const mayEnd = Promise.withResolvers<void>();
  await using candidate = stand(locks, async (_lease, signal) => {
    running++;
    assertEquals(running, 1, "the work runs once at a time");
    await untilAborted(_lease, signal);
    await mayEnd.promise;
    running--;
  });
  await waitUntil("it leads", () => isLeading(candidate));
  const [leading] = candidate.changes;
  assert(leading?.state === "leading");
  await arena.lose(leading.lease);
  await waitUntil("it is told", () => candidate.changes.length > 1);
  const lost = candidate.changes[1]!;
  assert(lost.state === "lost");
  assertInstanceOf(lost.reason, LeaseLostError);
  assertEquals(running, 1);
  // No condition: it must not lead again while the work runs.
  await pause(scaled(20));
  assertEquals(candidate.states(), ["leading", "lost"]);
  mayEnd.resolve();
  await waitUntil("it leads again", () => isLeading(candidate));
  assertEquals(candidate.states(), ["leading", "lost", "waiting", "leading"]);
}

async function leadsAgain(arena: Arena): Promise<void> {
  const locks = await arena.client();
  let terms = 0;
  await using candidate = stand(locks, (lease, signal) => {
    terms++;
    if (terms === 1) throw new RangeError("the work has failed");
    return terms === 2 ? "returned" : untilAborted(lease, signal);
  });
  await waitUntil("it leads for the third time", () => terms === 3);
  const cycle = ["leading", "lost", "waiting"];
  assertEquals(candidate.states(), [...cycle, ...cycle, "leading"]);
  const reasons = candidate.changes.flatMap((change) =>
    change.state === "lost" ? [change.reason] : []
  );
  assertInstanceOf(reasons[0], RangeError);
  assertEquals(reasons[1], undefined);
}

async function endsWithLocks(arena: Arena): Promise<void> {
  const locks = await arena.client({ disposeTimeoutMs: scaled(1_000) });
  const changes: string[] = [];
  const ended = lead(locks, NAME, untilAborted, { onChange: ({ state }) => changes.push(state) });
  await waitUntil("it leads", () => changes.length > 0);
  const rejected = assertRejects(() => ended, DOMException, "disposed");
  await locks[Symbol.asyncDispose]();
  await rejected;
  assertEquals(changes, ["leading", "lost", "waiting"]);
}
