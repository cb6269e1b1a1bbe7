import { assertEquals, assertInstanceOf, assertLess } from "@std/assert";
import { NoAnswerError } from "../../../core/time/outage_budget.ts";
import {
  type AskTurn,
  CommandWindow,
  MAX_UNANSWERED,
} from "../../../redis/protocol/command_window.ts";
import { FakeClock, settle } from "../../../testing/core/fake_clock.ts";
import { cpuTimeMs } from "../../../testing/core/cpu_time.ts";

const UNAVAILABLE_MS = 5_000;
/** How exactly the window measures that. */
const STEP_MS = 500;

/** A window without a free place. */
function full() {
  const clock = new FakeClock();
  const window = new CommandWindow(clock, UNAVAILABLE_MS);
  for (let i = 0; i < MAX_UNANSWERED; i++) assertEquals(window.take(), true);
  const log: string[] = [];
  const ask = (name: string, sinceMs = clock.now()): AskTurn => {
    const turn = window.askTurn(sinceMs);
    turn.come.then(() => log.push(name), (error) => {
      assertInstanceOf(error, NoAnswerError);
      log.push(`${name} failed`);
    });
    return turn;
  };
  const urgent = (name: string) => void window.urgentTurn().then(() => log.push(name));
  return { clock, window, log, ask, urgent };
}

Deno.test("CommandWindow.take() takes at most MAX_UNANSWERED places", () => {
  const { window } = full();
  assertEquals(window.take(), false);
  window.free(true);
  assertEquals([window.take(), window.take()], [true, false]);
});

Deno.test("CommandWindow lets urgent commands go before asks, each in order of arrival", async () => {
  const { window, log, ask, urgent } = full();
  ask("ask 1");
  urgent("urgent 1");
  ask("ask 2");
  urgent("urgent 2");
  for (let i = 0; i < 4; i++) {
    window.free(true);
    await settle();
  }
  assertEquals(log, ["urgent 1", "urgent 2", "ask 1", "ask 2"]);
  assertEquals(window.take(), false, "each of them has a place");
});

Deno.test("CommandWindow gives asks an eighth of the slots while urgent commands wait", async () => {
  const { window, log, ask, urgent } = full();
  for (let i = 0; i < 20; i++) urgent("urgent");
  for (let i = 0; i < 3; i++) ask("ask");
  for (let i = 0; i < 23; i++) {
    window.free(true);
    await settle();
  }
  const asks = log.flatMap((name, i) => name === "ask" ? [i] : []);
  assertEquals([log.length, asks], [23, [7, 15, 22]]);
});

Deno.test("CommandWindow lets the lease go first that ends first, and none that declines or withdraws", async () => {
  const { window, log } = full();
  const withdrawals = new Map<number, () => void>();
  const wait = (byMs: number, isWanted = true) => {
    const turn = window.urgentTurn({
      byMs,
      onQueued: (withdraw) => withdrawals.set(byMs, withdraw),
      onTurn: () => isWanted,
    });
    turn.then(() => log.push(`${byMs}`), (error) => log.push(`${byMs}: ${error.name}`));
  };
  for (const byMs of [Infinity, 300, 200, 0]) wait(byMs);
  wait(100, false);
  withdrawals.get(200)!();
  await settle();
  assertEquals(log.splice(0), ["200: Error"]);
  for (let i = 0; i < 3; i++) {
    window.free(true);
    await settle();
  }
  assertEquals(log, ["0", "100: Error", "300", "Infinity"]);
  window.free(true);
  assertEquals(
    [window.take(), window.take()],
    [true, false],
    "those that were not sent have no slot",
  );
});

Deno.test("CommandWindow lets renewals take turns with releases, and the clean-ups of lost leases go last", async () => {
  const { window, log } = full();
  for (const byMs of [Infinity, Infinity, 0, 0, 0, 0, 300, 200]) {
    const request = { byMs, onQueued: () => {}, onTurn: () => true };
    // A command that belongs to no lease is as urgent as a release.
    window.urgentTurn(byMs === 0 ? undefined : request).then(() => log.push(`${byMs}`));
  }
  for (let i = 0; i < 8; i++) {
    window.free(true);
    await settle();
  }
  assertEquals(log, ["0", "200", "0", "300", "0", "0", "Infinity", "Infinity"]);
});

Deno.test("CommandWindow lets an ask go first whose outage began first", async () => {
  const { clock, window, log, ask } = full();
  await clock.pass(100);
  ask("fresh");
  ask("retry", clock.now() - 50);
  window.free(false);
  await settle();
  assertEquals(log, ["retry"]);
});

Deno.test("CommandWindow.withdraw() takes an ask out of the queue, and leaves no timer", async () => {
  const { clock, window, log, ask } = full();
  const turn = ask("withdrawn");
  window.withdraw(turn);
  window.withdraw(turn);
  assertEquals(clock.timers, 0);
  window.free(true);
  await settle();
  assertEquals([log, window.take()], [[], true]);
});

Deno.test("CommandWindow fails an ask when nothing was answered for its whole outage", async () => {
  const { clock, log, ask } = full();
  ask("early");
  await clock.pass(1_000);
  ask("late");
  ask("of an earlier outage", clock.now() - 900);
  assertEquals(clock.timers, 1);
  await clock.pass(UNAVAILABLE_MS - 1_000 - 1);
  assertEquals(log, []);
  await clock.pass(1 + STEP_MS);
  assertEquals(log, ["early failed", "of an earlier outage failed"]);
  await clock.pass(1_000);
  assertEquals(log.slice(2), ["late failed"]);
  assertEquals(clock.timers, 0);
});

Deno.test("CommandWindow counts the silence before the first ask that waits", async () => {
  const { clock, log, ask } = full();
  await clock.pass(3_000);
  ask("fresh");
  ask("of the outage", clock.now() - 3_000);
  await clock.pass(2_000);
  assertEquals(log, ["of the outage failed"]);
});

Deno.test("CommandWindow does not fail asks while commands are answered", async () => {
  const { clock, window, log, ask } = full();
  for (let i = 0; i < 5; i++) ask(`ask ${i}`);
  for (let i = 0; i < 4; i++) {
    await clock.pass(UNAVAILABLE_MS - 1);
    window.free(true);
    await settle();
  }
  assertEquals(log, ["ask 0", "ask 1", "ask 2", "ask 3"]);
  await clock.pass(UNAVAILABLE_MS + STEP_MS);
  assertEquals(log[4], "ask 4 failed");
});

Deno.test("CommandWindow does not fail asks because the event loop was blocked", async () => {
  const { clock, log, ask } = full();
  ask("ask");
  clock.block(60_000);
  await clock.pass(UNAVAILABLE_MS - STEP_MS - 1);
  assertEquals(log, []);
  await clock.pass(STEP_MS + 1);
  assertEquals(log, ["ask failed"]);
});

Deno.test("CommandWindow.silentSinceMs is the last answer, or the first command after it", () => {
  const clock = new FakeClock();
  const window = new CommandWindow(clock, UNAVAILABLE_MS);
  const startMs = clock.now();
  const silentForMs = () => window.silentSinceMs === null ? null : window.silentSinceMs - startMs;
  assertEquals(silentForMs(), null);
  clock.block(10);
  window.take();
  clock.block(10);
  window.take();
  assertEquals(silentForMs(), 10);
  clock.block(10);
  window.free(true);
  assertEquals(silentForMs(), 30, "the second command is unanswered");
  window.free(false);
  assertEquals(silentForMs(), 30, "a lost connection is not an answer");
  clock.block(10);
  window.take();
  assertEquals(silentForMs(), 30);
  window.free(true);
  assertEquals(silentForMs(), null);
});

Deno.test("CommandWindow takes constant time per ask when 100,000 wait", async () => {
  const { window, ask } = full();
  const count = 100_000;
  const startMs = cpuTimeMs();
  const turns = Array.from({ length: count }, (_, i) => ask(String(i)));
  for (const turn of turns.filter((_, i) => i % 2 === 0)) window.withdraw(turn);
  for (let i = 0; i < count / 2; i++) window.free(true);
  await settle();
  assertLess(cpuTimeMs() - startMs, 10_000);
  window.free(true);
  assertEquals(window.take(), true, "nobody waits");
});
