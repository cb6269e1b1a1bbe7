/** What `instrumentLocks()` makes of the channels. With a real SDK: `tests/npm/otel_test.ts`. */
import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { inspect } from "node:util";
import { FakeClock, FakeLock } from "../../fake/mod.ts";
import { LockTimeoutError, MemoryLock } from "../../mod.ts";
import { instrumentLocks } from "../../otel/mod.ts";
import { keepTelemetry } from "../../testing/otel/providers.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

/** The workers of the incident: all of them change one entity. */
const WORKERS = 64;

Deno.test("instrumentLocks() counts calls by how they end", async () => {
  const telemetry = keepTelemetry();
  using _instrumented = instrumentLocks(telemetryOptions(telemetry));
  await using locks = new FakeLock({ disposeTimeoutMs: 0 });
  const other = locks.holdElsewhere("n");
  assertEquals(await locks.tryAcquire("n"), null);
  await assertRejects(() => locks.acquire("n", { waitMs: 10 }));
  await assertRejects(() => locks.acquire("n", { signal: AbortSignal.timeout(10) }));
  {
    using _outage = locks.startOutage();
    await assertRejects(() => locks.acquire("n"));
  }
  {
    using _refusal = locks.startRefusal();
    await assertRejects(() => locks.acquire("n"));
  }
  other.release();
  await (await locks.acquire("n")).release();
  for (const outcome of ["busy", "timeout", "aborted", "unavailable", "setup", "granted"]) {
    assertEquals(telemetry.sum("holdfast.acquires", outcome), 1, outcome);
    const failed = outcome !== "busy" && outcome !== "granted";
    const spans = telemetry.spans.filter(({ attributes }) =>
      attributes["holdfast.outcome"] === outcome
    );
    assertEquals(spans.map(({ failures, isEnded }) => [failures.length > 0, isEnded]), [[
      failed,
      true,
    ]]);
  }
  assertEquals([telemetry.sum("holdfast.waiting"), telemetry.sum("holdfast.held")], [0, 0]);
});

Deno.test("instrumentLocks() counts losses by reason and late renewals, and ends the span of the hold", async () => {
  const telemetry = keepTelemetry();
  using _instrumented = instrumentLocks(telemetryOptions(telemetry));
  const clock = new FakeClock();
  await using locks = new FakeLock({ clock, ttlMs: 30_000 });
  await locks.acquire("n");
  using _outage = locks.startOutage({ requests: ["renew"] });
  await clock.advance(30_000);
  assertEquals(telemetry.sum("holdfast.renewals.late"), 1);
  assertEquals(telemetry.sum("holdfast.losses", "unreachable"), 1);
  const [hold] = telemetry.spans.filter(({ name }) => name === "holdfast.hold");
  assertEquals([hold!.isEnded, hold!.events], [true, ["renewal late"]]);
  assert(hold!.failures.length > 0);
  assertEquals(telemetry.sum("holdfast.held"), 0);
});

Deno.test("instrumentLocks() exports a name only through nameTemplate, whose errors end nothing", async () => {
  for (
    const [nameTemplate, expected] of [
      [undefined, undefined],
      [(name: string) => name.replace(/\d+/g, "{id}"), "order:{id}"],
      [() => undefined, undefined],
      [() => {
        throw new Error("a bug");
      }, undefined],
    ] as const
  ) {
    const telemetry = keepTelemetry();
    using _instrumented = instrumentLocks({ ...telemetryOptions(telemetry), nameTemplate });
    await using locks = new MemoryLock();
    const victim = await locks.acquire("order:42");
    await assertRejects(() => locks.acquire("order:42", { waitMs: 0 }), LockTimeoutError);
    await locks.request("order:42", { steal: true }, () => {});
    await victim.release().catch(() => {});
    const failures = telemetry.spans.flatMap(({ failures }) => failures);
    const messages = ["ERR_LOCK_TIMEOUT", "ERR_LEASE_LOST"];
    for (const message of messages) assertStringIncludes(JSON.stringify(failures), message);
    for (const failure of failures) assert(!inspect(failure).includes("42"));
    const all = [...telemetry.spans, ...telemetry.values].map(({ attributes }) => attributes);
    assert(all.length >= 6);
    for (const attributes of all) {
      assertEquals(attributes["holdfast.lock.name"], expected);
      assert(!JSON.stringify(attributes).includes("42"));
    }
  }
});

Deno.test("instrumentLocks() ends all of its spans and subscriptions when it is disposed of", async () => {
  const telemetry = keepTelemetry();
  const instrumented = instrumentLocks(telemetryOptions(telemetry));
  await using locks = new MemoryLock();
  const lease = await locks.acquire("n");
  const waiting = locks.acquire("n");
  await waitUntil("it waits", () => telemetry.sum("holdfast.waiting") === 1);
  instrumented[Symbol.dispose]();
  assert(telemetry.spans.every(({ isEnded }) => isEnded));
  assertEquals([telemetry.sum("holdfast.waiting"), telemetry.sum("holdfast.held")], [0, 0]);
  const count = telemetry.values.length;
  await lease.release();
  await (await waiting).release();
  await locks.request("n", () => {});
  assertEquals(telemetry.values.length, count);
  const holds = telemetry.values.filter(({ metric }) => metric === "holdfast.hold.duration");
  assertEquals(holds, [], "the lease went on");
});

Deno.test("instrumentLocks() refuses unknown options and wrong types", () => {
  assertThrows(() => instrumentLocks({ names: true } as never), TypeError, "names");
  assertThrows(() => instrumentLocks({ nameTemplate: "x" as never }), TypeError, "nameTemplate");
  assertThrows(() => instrumentLocks({ tracerProvider: 1 as never }), TypeError, "tracerProvider");
});

Deno.test("64 workers on one entity: the gauge shows the queue, the histogram the wait, the span the holder", async () => {
  const telemetry = keepTelemetry();
  using _instrumented = instrumentLocks({
    ...telemetryOptions(telemetry),
    nameTemplate: () => "entity:{id}",
  });
  await using locks = new MemoryLock();
  const slow = await locks.acquire("entity:7", { label: "bulk-import" });
  const workers = Array.from({ length: WORKERS }, () => locks.request("entity:7", () => {}));
  const blocked = () =>
    telemetry.spans.filter(({ attributes }) =>
      attributes["holdfast.holder.label"] === "bulk-import"
    );
  await waitUntil("each wait has its holder", () => blocked().length === WORKERS);
  assertEquals(telemetry.sum("holdfast.waiting", "entity:{id}"), WORKERS);
  assertEquals(telemetry.sum("holdfast.held"), 1);
  await slow.release();
  await Promise.all(workers);
  const waits = telemetry.values
    .filter(({ metric, value }) => metric === "holdfast.acquire.duration" && value >= 0.09);
  assertEquals(waits.length, WORKERS);
  const holds = telemetry.values.filter(({ metric }) => metric === "holdfast.hold.duration");
  const slowHolds = holds.filter(({ value }) => value >= 0.09).length;
  assert(slowHolds > 0 && slowHolds < WORKERS / 2, "one holder is slow, not all");
  assertEquals(telemetry.sum("holdfast.waiting"), 0);
});

function telemetryOptions({ tracerProvider, meterProvider }: ReturnType<typeof keepTelemetry>) {
  return { tracerProvider, meterProvider };
}
