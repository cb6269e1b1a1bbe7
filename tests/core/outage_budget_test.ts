import { assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { LockSetupError, LockUnavailableError } from "../../core/contract/errors.ts";
import {
  type Failure,
  NoAnswerError,
  OutageBudget,
  type OutageTerms,
} from "../../core/time/outage_budget.ts";
import { countListeners } from "../../testing/core/count_listeners.ts";
import { FakeClock, settle } from "../../testing/core/fake_clock.ts";

class ServiceError extends Error {
  readonly failure: Failure;

  constructor(kind: Failure["kind"], endsOutage = false) {
    super(kind);
    this.failure = { kind, endsOutage, reason: `it is ${kind}` };
  }
}

function classify(error: unknown): Failure {
  if (error instanceof ServiceError) return error.failure;
  const kind = error instanceof TypeError ? "foreign" : "retry";
  return { kind, endsOutage: false, reason: "not to be shown" };
}

function open(signal = new AbortController().signal) {
  const clock = new FakeClock();
  const terms = { clock, service: "Redis", unavailableAfterMs: 1_000, classify };
  return { clock, budget: new OutageBudget(terms, "n", signal) };
}

Deno.test("OutageBudget.ask() retries a request until it is answered", async () => {
  const { clock, budget } = open();
  let calls = 0;
  const answer = budget.ask(() =>
    ++calls < 3 ? Promise.reject(new ServiceError("retry")) : Promise.resolve("yes")
  );
  await clock.pass(200);
  assertEquals([await answer, calls], ["yes", 3]);
});

Deno.test("OutageBudget.ask() rejects when the outage lasts too long", async () => {
  const { clock, budget } = open();
  const refused = assertRejects(
    () => budget.ask(() => Promise.reject(new ServiceError("retry"))),
    LockUnavailableError,
  );
  await clock.pass(1_100);
  const error = await refused;
  assertStringIncludes(error.message, 'Cannot reach Redis for lock "n": it is retry');
  assertEquals(error.lockName, "n");
});

Deno.test("OutageBudget.ask() measures an outage from the first request without an answer", async () => {
  const { clock, budget } = open();
  await clock.pass(5_000); // a long wait in the queue is not an outage
  let calls = 0;
  const answer = budget.ask(() =>
    ++calls === 1 ? Promise.reject(new ServiceError("retry")) : Promise.resolve("yes")
  );
  await clock.pass(100);
  assertEquals(await answer, "yes");
});

Deno.test("OutageBudget.ask() rejects with the error when a retry cannot fix it", async () => {
  const { budget } = open();
  for (const kind of ["restart", "refused", "foreign"] as const) {
    const failure = new ServiceError(kind);
    const error = await assertRejects(() => budget.ask(() => Promise.reject(failure)));
    assertEquals(error, failure);
  }
});

Deno.test("OutageBudget.recover() pauses before a retry, and rejects when a retry cannot succeed", async () => {
  const { clock, budget } = open();
  const paused = budget.recover(new ServiceError("restart"));
  await clock.pass(50);
  await paused;
  const refused = 'Cannot use Redis for lock "n": it is refused';
  await assertRejects(
    () => budget.recover(new ServiceError("refused")),
    LockSetupError,
    refused,
  );
  const mistake = new TypeError("a bug in a program");
  assertEquals(await assertRejects(() => budget.recover(mistake)), mistake);
});

Deno.test("OutageBudget.settle() waits for an answer no longer than the rest of the budget", async () => {
  const { clock, budget } = open();
  const first = assertRejects(() => budget.settle(new Promise(() => {})), Error, "No answer");
  await clock.pass(1_000);
  await first;
  budget.answered();
  let isOver = false;
  const second = budget.settle(new Promise(() => {})).catch(() => isOver = true);
  await clock.pass(999);
  await settle();
  assertEquals(isOver, false);
  await clock.pass(1);
  await second;
  assertEquals(clock.timers, 0);
  budget.answered();
  budget.beganAt(clock.now() - 950);
  budget.beganAt(clock.now()); // the same outage
  isOver = false;
  budget.settle(new Promise(() => {})).catch(() => isOver = true);
  await clock.pass(49);
  assertEquals(isOver, false);
  await clock.pass(1);
  assertEquals([isOver, clock.timers], [true, 0]);
});

Deno.test("OutageBudget.settle() does not count time in which the event loop was blocked", async () => {
  const { clock, budget } = open();
  const answer = Promise.withResolvers<string>();
  const settled = budget.settle(answer.promise);
  clock.block(60_000);
  await clock.pass(800);
  answer.resolve("read at last");
  assertEquals(await settled, "read at last");
  const failing = assertRejects(() => budget.settle(new Promise(() => {})), Error, "No answer");
  await clock.pass(200);
  await failing;
});

Deno.test("OutageBudget.settle() and ask() leave no listener at the signal, however the wait ends", async () => {
  const controller = new AbortController();
  const { clock, budget } = open(controller.signal);
  const listeners = countListeners(controller.signal);
  const never = new Promise(() => {});
  const late = ["LockUnavailableError", "Error"];
  const outage = [budget.ask(() => never), budget.settle(never)];
  const ended = Promise.all(outage.map((call) => call.catch((error: Error) => error.name)));
  assertEquals(listeners(), 1);
  await clock.pass(1_000);
  assertEquals(await ended, late);
  assertEquals([listeners(), clock.timers], [0, 0]);
  budget.answered();
  assertEquals(await budget.settle(Promise.resolve("yes")), "yes");
  await budget.settle(Promise.reject("no")).catch(() => {});
  assertEquals([listeners(), clock.timers], [0, 0]);
  const aborted = budget.settle(never).catch((error) => error);
  controller.abort("enough");
  assertEquals([await aborted, listeners(), clock.timers], ["enough", 0, 0]);
  const atOnce = budget.settle(never).catch((error) => error);
  assertEquals([await atOnce, listeners(), clock.timers], ["enough", 0, 0]);
});

Deno.test("OutageBudget.recover() says how long there was no answer when no failure is known", async () => {
  const { clock, budget } = open();
  const silent = budget.settle(new Promise(() => {})).catch((error) => budget.recover(error));
  const text = 'Cannot reach Redis for lock "n": it has not answered in time for 1000 ms';
  const refused = assertRejects(() => silent, LockUnavailableError, text);
  await clock.pass(1_000);
  await refused;
});

Deno.test("OutageBudget.settle() rejects with the last failure of the outage when time runs out", async () => {
  const { clock, budget } = open();
  const failure = new ServiceError("retry");
  const first = budget.settle(Promise.reject(failure)).catch((error) => budget.recover(error));
  await clock.pass(50);
  await first;
  const second = budget.settle(new Promise(() => {})).catch((error) => error);
  await clock.pass(1_000);
  assertEquals(await second, failure);
  await assertRejects(() => budget.recover(failure), LockUnavailableError, "it is retry");
});

Deno.test("OutageBudget.ask() rejects with the signal's reason when it aborts", async () => {
  const controller = new AbortController();
  const { budget } = open(controller.signal);
  const asked = budget.ask(() => new Promise(() => {}));
  controller.abort("no longer wanted");
  assertEquals(await asked.catch((reason) => reason), "no longer wanted");
  let calls = 0;
  const late = budget.ask(() => Promise.resolve(++calls));
  assertEquals([await late.catch((reason) => reason), calls], ["no longer wanted", 0]);
  const recovered = budget.recover(new ServiceError("retry"));
  assertEquals(await recovered.catch((reason) => reason), "no longer wanted");
});

Deno.test("OutageBudget names the error of the connection when the failure says nothing itself", async () => {
  const failed = (reason: string) => Object.assign(new Error(), { reason });
  const cases: [failure: string | null, connection: string | null, expected: string][] = [
    [null, null, "it has not answered in time for 1000 ms"],
    [null, "lost", "lost"],
    [null, "refused (ECONNREFUSED)", "refused (ECONNREFUSED)"],
    ["offline", null, "offline"],
    ["offline", "lost", "lost"],
    ["offline", "refused (ECONNREFUSED)", "refused (ECONNREFUSED)"],
    ["full (OOM)", "refused (ECONNREFUSED)", "full (OOM)"],
  ];
  for (const [failure, connection, expected] of cases) {
    const clock = new FakeClock();
    const terms: OutageTerms = {
      clock,
      service: "Redis",
      unavailableAfterMs: 1_000,
      classify: (error) => ({
        kind: "retry",
        endsOutage: false,
        reason: (error as { reason?: string }).reason ?? "",
        isVague: (error as { reason?: string }).reason === "offline",
      }),
      client: { connectionError: connection === null ? undefined : failed(connection) },
    };
    const budget = new OutageBudget(terms, "n", new AbortController().signal);
    const request = failure === null ? new Promise(() => {}) : Promise.reject(failed(failure));
    const rejected = assertRejects(async () => {
      for (;;) {
        try {
          await budget.settle(request);
        } catch (error) {
          await budget.recover(error);
        }
      }
    }, LockUnavailableError);
    await clock.pass(1_200);
    assertEquals((await rejected).message, `Cannot reach Redis for lock "n": ${expected}`);
  }
});

Deno.test("OutageBudget.unavailable() has no cause that repeats its message", () => {
  const reason = "it is down. Start it";
  const terms: OutageTerms = {
    clock: new FakeClock(),
    service: "Redis",
    unavailableAfterMs: 1_000,
    classify: () => ({ kind: "retry", endsOutage: false, reason }),
  };
  const budget = new OutageBudget(terms, "n", new AbortController().signal);
  const refused = new Error("connect ECONNREFUSED");
  const empty = new Error("", { cause: refused });
  const cases: [failure: unknown, cause: unknown][] = [
    [refused, refused],
    [new Error(reason), undefined],
    [new Error(reason, { cause: refused }), refused],
    [new Error("down", { cause: new Error(reason, { cause: refused }) }), refused],
    [new Error("Start it", { cause: new Error(reason) }), undefined],
    [empty, empty],
  ];
  for (const [failure, cause] of cases) {
    const error = budget.unavailable(failure);
    assertStringIncludes(error.message, reason);
    assertEquals(["cause" in error, error.cause], [cause !== undefined, cause]);
  }
  const circle = new Error("round");
  circle.cause = circle;
  assertEquals(budget.unavailable(circle).cause, circle);
});

Deno.test("OutageBudget forgets an outage and its failure with an answer, also with a failure that is one", async () => {
  const { clock, budget } = open();
  assertEquals(await budget.ask(() => Promise.resolve("first")), "first");
  await clock.pass(5_000);
  const failing = (times: number, failure: ServiceError) => {
    let calls = 0;
    return () => ++calls <= times ? Promise.reject(failure) : Promise.resolve("at last");
  };
  const second = budget.ask(failing(2, new ServiceError("retry")));
  await clock.pass(200);
  assertEquals(await second, "at last");
  const busy = budget.ask(failing(40, new ServiceError("retry", true))); // longer than an outage may last
  await clock.pass(3_000);
  assertEquals(await busy, "at last");
  const silent = budget.settle(new Promise(() => {})).catch((error) => error.message);
  await clock.pass(1_000);
  assertEquals(await silent, "No answer in time");
});

Deno.test("OutageBudget counts no time in which others were answered, also when the request fails", async () => {
  const clock = new FakeClock();
  const client = { lastAnswerMs: clock.now() };
  const terms: OutageTerms = {
    clock,
    service: "Redis",
    unavailableAfterMs: 1_000,
    classify,
    client,
  };
  const { signal } = new AbortController();
  let isOver = false;
  const silent = new OutageBudget(terms, "n", signal).settle(new Promise(() => {}))
    .catch(() => isOver = true);
  for (let i = 0; i < 6; i++) {
    await clock.pass(500);
    client.lastAnswerMs = clock.now();
  }
  await clock.pass(900);
  assertEquals(isOver, false);
  await clock.pass(200);
  assertEquals(isOver, true);
  await silent;

  const budget = new OutageBudget(terms, "n", signal);
  const request = Promise.withResolvers<never>();
  client.lastAnswerMs = clock.now();
  const failed = budget.settle(request.promise).catch((error) => budget.recover(error));
  await clock.pass(850);
  client.lastAnswerMs = clock.now();
  await clock.pass(40);
  request.reject(new ServiceError("retry"));
  await clock.pass(700);
  await failed;
  budget.check(); // 740 ms since the last answer to others

  budget.answered();
  const end = budget.timeAnswer(() => {});
  end(false);
  const { outageSinceMs } = budget;
  await clock.pass(100);
  client.lastAnswerMs = clock.now();
  end(true); // once more, as when the caller has given up before
  assertEquals([budget.outageSinceMs, clock.timers], [outageSinceMs, 0]);
});

Deno.test("OutageBudget.judge() and check() give up when the budget is used up, and not before", async () => {
  assertThrows(() => open().budget.judge(new NoAnswerError("full")), LockUnavailableError);
  const { clock, budget } = open();
  budget.judge(new ServiceError("restart"));
  await clock.pass(999);
  budget.check();
  await clock.pass(1);
  assertThrows(() => budget.check(), LockUnavailableError);
});
