/** `@RunOnce()` in the real `@nestjs/schedule`: two applications stand for two processes. */
import "reflect-metadata";
import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { Injectable, Module } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { Cron, Interval, ScheduleModule } from "@nestjs/schedule";
import { LOCKS, RunOnce } from "../../http/nestjs.ts";
import { type Lease, LeaseLostError, MemoryLock } from "../../mod.ts";
import { aborted, within } from "../../testing/conformance/bounds.ts";
import { decorate } from "../../testing/http/nest_server.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { ENDING_TTL_MS, LONG_TTL_MS, scaled } from "../../testing/time.ts";

/** The period of a job. */
const PERIOD_MS = scaled(100);
const OPTIONS = { logger: false, abortOnError: false } as const;

/** Starts an application, which is a process of its own for the schedule. */
async function startJobs(Jobs: new () => object, locks: MemoryLock | null) {
  Injectable()(Jobs);
  class App {}
  const provided = locks === null ? [] : [{ provide: LOCKS, useValue: locks }];
  Module({ imports: [ScheduleModule.forRoot()], providers: [Jobs, ...provided] })(App);
  const app = await NestFactory.createApplicationContext(App, OPTIONS);
  return { [Symbol.asyncDispose]: () => app.close() };
}

/** Starts an application with jobs that add the lease of each run to a list. */
async function startApp(locks: MemoryLock | null, runs: string[]): Promise<AsyncDisposable> {
  class Jobs {
    readonly #who = "jobs";
    a(lease: Lease) {
      this.#ran(lease);
    }
    b(lease: Lease) {
      this.#ran(lease);
    }
    c(lease: Lease) {
      this.#ran(lease);
    }
    #ran(lease: Lease) {
      lease.throwIfLost();
      runs.push(`${this.#who} ${lease.name}`);
    }
  }
  const keepMs = LONG_TTL_MS;
  // As decorators, the last one stands at the top: they are applied from below.
  decorate(Jobs, "a", RunOnce("a", { keepMs }), Interval(20));
  decorate(Jobs, "b", Interval(20), RunOnce("b", { keepMs }));
  decorate(Jobs, "c", RunOnce("c", { keepMs }), Cron("* * * * * *"));
  return await startJobs(Jobs, locks);
}

Deno.test("@RunOnce() runs the jobs of @nestjs/schedule in one of two applications", async () => {
  await using locks = new MemoryLock();
  const tries: Record<string, number> = { a: 0, b: 0, c: 0 };
  const tryAcquire = locks.tryAcquire.bind(locks);
  locks.tryAcquire = (name, options) => {
    tries[name]!++;
    return tryAcquire(name, options);
  };
  const runs: string[] = [];
  await using _one = await startApp(locks, runs);
  await using _two = await startApp(locks, runs);
  await waitUntil("both have ticked", () => Object.values(tries).every((count) => count >= 2));
  assertEquals(runs.toSorted(), ["jobs a", "jobs b", "jobs c"]);
});

Deno.test("@RunOnce() with @Interval() runs no job twice in a period when keepMs is a little below it", async () => {
  await using locks = new MemoryLock();
  let runs = 0;
  const start = async () => {
    class Jobs {
      a() {
        runs++;
      }
    }
    decorate(Jobs, "a", RunOnce("a", { keepMs: 0.9 * PERIOD_MS }), Interval(PERIOD_MS));
    return await startJobs(Jobs, locks);
  };
  const startMs = performance.now();
  await using _one = await start();
  const isHalfOver = () => performance.now() - startMs > PERIOD_MS / 2;
  await waitUntil("the next process starts in the middle of a period", isHalfOver);
  await using _two = await start();
  await waitUntil("four have run", () => runs >= 4);
  assert(performance.now() - startMs > 3.5 * PERIOD_MS); // with less than half a period as keepMs: 2.5
});

Deno.test("@RunOnce() ends the lease of a job that hangs after maxHoldMs", async () => {
  await using locks = new MemoryLock();
  class Jobs {
    async a({ signal }: Lease) {
      await within("the lease is lost", aborted(signal));
    }
  }
  Injectable()(Jobs);
  decorate(Jobs, "a", RunOnce("a", { keepMs: ENDING_TTL_MS, maxHoldMs: ENDING_TTL_MS }));
  class App {}
  Module({ providers: [Jobs, { provide: LOCKS, useValue: locks }] })(App);
  const app = await NestFactory.createApplicationContext(App, OPTIONS);
  const jobs = app.get<{ a(): Promise<void> }>(Jobs);
  const loss = await assertRejects(() => jobs.a(), LeaseLostError);
  assertEquals([loss.reason, (await locks.query("a")).holders], ["max-hold", []]);
  await app.close();
});

Deno.test("@RunOnce() keeps an application without a provider of LOCKS from starting", async () => {
  const error = await startApp(null, []).then(() => null, (error) => error);
  assertStringIncludes(String(error), "LOCKS");
});

// deno-lint-ignore require-await -- tests are async
Deno.test("@RunOnce() refuses bad arguments when the program is loaded", async () => {
  assertThrows(() => RunOnce("", { keepMs: 10 }), RangeError, "lock name");
  assertThrows(() => RunOnce("a", { keepMs: 1 }), RangeError, "'keepMs'");
  assertThrows(() => RunOnce("a", { keepMs: 10, maxHoldMs: 9 }), RangeError, "'maxHoldMs'");
  assertThrows(() => RunOnce("a", {} as never), TypeError, "'keepMs'");
});
