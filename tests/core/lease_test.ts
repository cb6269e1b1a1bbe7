import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { inspect } from "node:util";
import { runInNewContext } from "node:vm";
import { LeaseLostError, LockError, LockSetupError } from "../../mod.ts";
import {
  type LeaseRequest,
  type ReleaseAnswer,
  type RenewAnswer,
  UNSENT,
} from "../../core/lease/grant.ts";
import { instant } from "../../core/time/clock.ts";
import { type FakeClock, settle } from "../../testing/core/fake_clock.ts";
import { type FakeService, openLease, PROVABLE_MS } from "../../testing/core/fake_service.ts";

function lossOf({ lease }: Pick<FakeService, "lease">): LeaseLostError {
  return assertThrows(() => lease.throwIfLost(), LeaseLostError);
}

Deno.test("Lease.remainingMs counts from when the request was executed", async () => {
  const service = openLease();
  assertEquals(service.lease.remainingMs, PROVABLE_MS);
  await service.clock.pass(500);
  assertEquals(service.lease.remainingMs, PROVABLE_MS - 500);
});

Deno.test("Lease.remainingMs is never more than the requested TTL or what is left on the server", () => {
  assertEquals(openLease({ validMs: 1_000 }).lease.remainingMs, 1_000 - 12);
  assertEquals(openLease({ validMs: 9_000 }).lease.remainingMs, PROVABLE_MS);
});

for (
  const [when, happens] of [
    ["the answer arrives after the lease's deadline", (clock) => clock.block(PROVABLE_MS)],
    ["the process was suspended before the answer arrives", (clock) => clock.stepWall(100)],
  ] satisfies [string, (clock: FakeClock) => void][]
) {
  Deno.test(`LeaseEngine.open() returns null when ${when}`, () => {
    const { engine, clock } = openLease();
    const sent = instant(clock);
    happens(clock);
    const late = engine.open(
      {
        name: "n",
        ownerId: "me",
        fencingToken: 1n,
        sent,
        ttlMs: 3_000,
        validMs: 60_000, // it was taken over from a call with a longer TTL
        autoRenew: true,
      },
      { release: () => Promise.resolve({ state: "released" }) },
    );
    assertEquals(late, null);
  });
}

Deno.test("Lease.signal aborts at the deadline when renewals are not answered", async () => {
  const service = openLease();
  const { signal } = service.lease;
  await service.clock.pass(PROVABLE_MS - 1);
  assert(!signal.aborted);
  assert(service.renewals.length >= 3);
  await service.clock.pass(1);
  assert(signal.aborted);
  assertEquals((signal.reason as LeaseLostError).reason, "unreachable");
});

Deno.test("Lease reports a late renewal once, when a third of its time is left, and again after an answer", async () => {
  const { clock, renewals, late } = openLease();
  const thirdMs = 1_000;
  await clock.pass(PROVABLE_MS - thirdMs - 1);
  assertEquals(late, []);
  await clock.pass(1);
  assertEquals(late, [thirdMs]);
  await clock.pass(thirdMs - 100);
  assertEquals(late.length, 1);
  renewals.at(-1)!.answer({ state: "held", validMs: 3_000 });
  await clock.pass(PROVABLE_MS - 100);
  assertEquals(late.length, 2);
});

Deno.test("Lease of a grant whose proof is nearly used up is not late before its first renewal could be answered", async () => {
  const sent = { nowMs: -1_100, wallMs: 997_900 }; // 900 ms are left, less than a third
  const { clock, renewals, late } = openLease({ sent });
  await clock.pass(10);
  assertEquals([renewals.length, late], [1, []]);
  renewals[0]!.answer({ state: "held", validMs: 3_000 });
  await clock.pass(900);
  assertEquals(late, []);
});

Deno.test("Lease reports no late renewal when renewals are answered, without autoRenew, and at disposal", async () => {
  const answered = openLease();
  for (let i = 0; i < 5; i++) {
    await answered.clock.pass(1_000);
    answered.renewals.at(-1)!.answer({ state: "held", validMs: 3_000 });
  }
  const manual = openLease({ autoRenew: false });
  const file = openLease({ ttlMs: Infinity, validMs: Infinity, watchEveryMs: 1_000 });
  const kept = openLease();
  const closed = kept.engine.close(20_000);
  for (const { clock } of [manual, file, kept]) await clock.pass(PROVABLE_MS - 1);
  for (const { late } of [answered, manual, file, kept]) assertEquals(late, []);
  for (const { answer } of kept.releases) answer({ state: "released" });
  await kept.clock.pass(20_000);
  await closed;
});

Deno.test("Lease expires without sending a renewal when autoRenew is false", async () => {
  const service = openLease({ autoRenew: false });
  await service.clock.pass(PROVABLE_MS);
  assertEquals(service.renewals.length, 0);
  assertEquals(lossOf(service).reason, "expired");
});

Deno.test("Lease.throwIfLost() throws after the deadline when no timer has run yet", () => {
  const service = openLease();
  const { signal } = service.lease;
  service.clock.block(PROVABLE_MS);
  assertEquals(service.lease.remainingMs, 0);
  assert(!signal.aborted);
  const error = lossOf(service);
  assert(signal.aborted && signal.reason === error);
});

Deno.test("Lease.signal is aborted when it is first read after the deadline", () => {
  const { lease, clock } = openLease();
  clock.block(PROVABLE_MS);
  assert(lease.signal.aborted);
});

Deno.test("Lease.release() returns false after the deadline when no timer has run yet", async () => {
  const service = openLease({ autoRenew: false });
  service.clock.block(PROVABLE_MS);
  const released = service.lease.release();
  assertEquals(lossOf(service).reason, "expired");
  await settle();
  assertEquals(service.releases.length, 1, "the clean-up sends it");
  service.releases[0]!.answer({ state: "released" });
  assertEquals(await released, false);
});

Deno.test("Lease renews after a third of the TTL, and counts from when the renewal was executed", async () => {
  const { lease, clock, renewals } = openLease();
  await clock.pass(990);
  assertEquals(renewals.length, 1);
  assertEquals(renewals[0]!.ttlMs, 3_000);
  assert(Math.abs(renewals[0]!.sentMs - 2_000) < 100, `sent at ${renewals[0]!.sentMs}`);
  await clock.pass(200);
  renewals[0]!.answer({ state: "held", validMs: 3_000 });
  await settle();
  assertEquals(lease.remainingMs, renewals[0]!.sentMs + PROVABLE_MS - clock.now());
});

Deno.test("Lease retries a renewal while time remains, and a late answer still moves the deadline", async () => {
  const { lease, clock, renewals } = openLease();
  await clock.pass(990);
  renewals[0]!.fail(new Error("connection lost"));
  await clock.pass(1_000);
  assert(renewals.length >= 3, `${renewals.length} attempts`);
  renewals[1]!.answer({ state: "held", validMs: 3_000 });
  await settle();
  assertEquals(lease.remainingMs, renewals[1]!.sentMs + PROVABLE_MS - clock.now());
});

/** A lease whose requests wait for their turns. */
function openQueued() {
  const queue: {
    request: LeaseRequest;
    isWithdrawn: boolean;
    send(answer: RenewAnswer | ReleaseAnswer): void;
  }[] = [];
  const wait = (request: LeaseRequest) => {
    const { promise, resolve, reject } = Promise.withResolvers<never>();
    const send = (answer: RenewAnswer | ReleaseAnswer) => resolve(answer as never);
    const entry = { request, isWithdrawn: false, send };
    queue.push(entry);
    request.onQueued(() => {
      entry.isWithdrawn = true;
      reject(UNSENT);
    });
    return promise;
  };
  const service = openLease({}, {
    renew: (_, request) => wait(request),
    release: (_, request) => wait(request),
  });
  return { ...service, queue };
}

Deno.test("Lease sends no second renewal while one waits for its turn, and counts from its turn", async () => {
  const { lease, clock, queue } = openQueued();
  await clock.pass(2_500);
  assertEquals(queue.length, 1);
  const [{ request, send }] = queue as [typeof queue[0]];
  assert(request.onTurn());
  const sentMs = clock.now();
  await clock.pass(100);
  send({ state: "held", validMs: 3_000 });
  await settle();
  assertEquals(lease.remainingMs, sentMs + PROVABLE_MS - clock.now());
});

Deno.test("Lease retries a renewal that is not answered in time after its turn", async () => {
  const { clock, queue } = openQueued();
  await clock.pass(1_500);
  queue[0]!.request.onTurn();
  await clock.pass(499);
  assertEquals(queue.length, 1);
  await clock.pass(200);
  assertEquals(queue.length, 2);
});

Deno.test("Lease retries the first renewal of a short claim on a long TTL before the claim is over", async () => {
  const { clock, renewals } = openLease({ ttlMs: 60_000, validMs: 3_000 });
  await clock.pass(PROVABLE_MS - 1);
  assert(renewals.length >= 2);
});

Deno.test("Lease declines its turn when the answer would come after its deadline", async () => {
  const { clock, queue } = openQueued();
  await clock.pass(PROVABLE_MS - 60);
  assertEquals(queue[0]!.request.onTurn(), false);
});

Deno.test("Lease declines its turn when less time is left than two answers have lately taken", async () => {
  const { lease, clock, queue } = openQueued();
  /** Lets the turn of the next renewal come when so much time is left. */
  const turnWith = async (leftMs: number) => {
    await clock.pass(lease.remainingMs - leftMs);
    return queue.at(-1)!.request.onTurn();
  };
  const answer = async (answerMs: number) => {
    await clock.pass(answerMs);
    queue.at(-1)!.send({ state: "held", validMs: 3_000 });
    await settle();
  };
  const renew = async (times: number, answerMs: number) => {
    for (let i = 0; i < times; i++) {
      assert(await turnWith(1_900));
      await answer(answerMs);
    }
  };
  await renew(10, 400);
  assert(await turnWith(100), "a few slow answers are only a stall");
  await answer(1);
  await renew(600, 300);
  assert(await turnWith(650));
  await answer(300);
  await renew(1, 1);
  assert(await turnWith(100), "the answers are quick again");
  await answer(1);
  await renew(600, 300);
  assert(await turnWith(1_900));
  queue.at(-1)!.send({ state: "unknown", cause: undefined });
  await settle();
  assertEquals(await turnWith(550), false, "a quick failure is no quick answer");
});

Deno.test("Lease withdraws a renewal that waits for its turn when it is released or lost", async () => {
  const released = openQueued();
  await released.clock.pass(1_500);
  released.lease.release();
  await settle();
  assertEquals(released.queue.length, 2, "the release does not wait for the renewal");
  assertEquals(released.queue.map(({ request }) => request.byMs > 0), [true, false]);
  const lost = openQueued();
  await lost.clock.pass(PROVABLE_MS);
  const error = assertThrows(() => lost.lease.throwIfLost(), LeaseLostError);
  assert(error.cause === UNSENT);
  await settle();
  assertEquals(lost.queue.map(({ request }) => request.byMs).slice(1), [Infinity], "it cleans up");
  await lost.clock.pass(3_200);
  assertEquals([lost.queue.length, lost.queue[1]!.isWithdrawn], [2, true], "it has expired by now");
});

Deno.test("Lease pauses after each renewal that fails at once", async () => {
  const { clock, engine } = openLease({ autoRenew: false });
  const sentAtMs: number[] = [];
  engine.open({
    ...{ name: "m", ownerId: "me", fencingToken: 8n, sent: instant(clock) },
    ...{ ttlMs: 3_000, validMs: 3_000, autoRenew: true },
  }, {
    renew() {
      sentAtMs.push(clock.now());
      // Without pauses the clock would never move on, so at some time there is no answer.
      return sentAtMs.length < 100
        ? Promise.reject(new Error("connection lost"))
        : new Promise(() => {});
    },
    release: () => Promise.resolve({ state: "released" }),
  });
  await clock.pass(PROVABLE_MS);
  // 150 ms, and less by up to a half.
  assert(sentAtMs.length >= 13 && sentAtMs.length <= 28, `${sentAtMs.length} renewals`);
});

Deno.test("Lease.renew() is retried after a sixth of the TTL, 20 ms to 2 s, and a pause that is shortened at random", async () => {
  const cases = [[60, 20, 5], [3_000, 500, 150], [60_000, 2_000, 500]] as const;
  for (const [ttlMs, limitMs, pauseMs] of cases) {
    const { lease, clock, renewals } = openLease({ ttlMs, validMs: ttlMs, autoRenew: false });
    lease.renew().catch(() => {}); // never answered
    await clock.pass(ttlMs);
    const gaps = renewals.slice(1).map(({ sentMs }, i) => sentMs - renewals[i]!.sentMs);
    assert(gaps.length > 0);
    const areRight = gaps.every((ms) => ms >= limitMs + pauseMs / 2 && ms <= limitMs + pauseMs);
    assert(areRight, `TTL ${ttlMs} ms: ${gaps}`);
  }
});

Deno.test("Lease without a TTL is watched each watchEveryMs, counted from the last look", async () => {
  const { clock, renewals, late } = openLease({
    ...{ ttlMs: Infinity, validMs: Infinity, watchEveryMs: 1_000, autoRenew: false },
  });
  const startMs = clock.now();
  for (let looks = 1; looks <= 5; looks++) {
    await clock.pass(1_000);
    assertEquals(renewals.map(({ sentMs }) => Math.round((sentMs - startMs) / 1_000)), [
      ...[1, 2, 3, 4, 5].slice(0, looks),
    ]);
    renewals.at(-1)!.answer({ state: "held", validMs: Infinity });
  }
  assertEquals(late, []);
});

Deno.test("Lease is renewed later when renew() has moved its deadline", async () => {
  const { lease, clock, renewals } = openLease();
  await clock.pass(500);
  const renewed = lease.renew();
  await settle();
  renewals[0]!.answer({ state: "held", validMs: 3_000 });
  await renewed;
  await clock.pass(850);
  assertEquals(renewals.length, 1, "not after a third of the first TTL");
  await clock.pass(150);
  assertEquals(renewals.length, 2);
});

Deno.test("Lease that renew() has prolonged by far is renewed as often as before: it may be stolen", async () => {
  const { lease, clock, renewals } = openLease();
  const renewed = lease.renew(3_600_000);
  await settle();
  renewals[0]!.answer({ state: "held", validMs: 3_600_000 });
  await renewed;
  for (let count = 2; count < 5; count++) {
    await clock.pass(1_000);
    assertEquals([renewals.length, renewals.at(-1)!.ttlMs], [count, 3_000]);
    renewals.at(-1)!.answer({ state: "held", validMs: 3_599_000 });
    await settle();
  }
  assert(lease.remainingMs > 3_500_000);
  await clock.pass(1_000);
  renewals.at(-1)!.answer({ state: "lost", reason: "stolen" });
  await settle();
  assertEquals(lossOf({ lease }).reason, "stolen");
});

Deno.test("Lease with a short TTL is renewed a tenth of it early at most, when others are due", async () => {
  const { clock, engine } = openLease({ autoRenew: false });
  const renewedAtMs: Record<string, number[]> = {};
  const startMs = clock.now();
  for (const [name, ttlMs] of Object.entries({ often: 60, rarely: 300 })) {
    renewedAtMs[name] = [];
    engine.open({
      ...{ name, ownerId: name, fencingToken: 8n, sent: instant(clock) },
      ...{ ttlMs, validMs: ttlMs, autoRenew: true },
    }, {
      renew() {
        renewedAtMs[name]!.push(clock.now() - startMs);
        return Promise.resolve({ state: "held", validMs: ttlMs });
      },
      release: () => Promise.resolve({ state: "released" }),
    });
  }
  await clock.pass(120);
  const [first = 0] = renewedAtMs["rarely"]!;
  assert(first >= 65 && first <= 100, `after ${first} ms`);
  assert(renewedAtMs["often"]![0]! <= 20, `after ${renewedAtMs["often"]} ms`);
});

Deno.test("Lease stays lost when a renewal is answered after the deadline", async () => {
  const service = openLease();
  await service.clock.pass(990);
  service.clock.block(PROVABLE_MS);
  service.renewals[0]!.answer({ state: "held", validMs: 60_000 });
  await settle();
  assertEquals(service.lease.remainingMs, 0);
  lossOf(service);
  const gone = openLease();
  await gone.clock.pass(990);
  gone.clock.block(PROVABLE_MS);
  gone.renewals[0]!.answer({ state: "lost", reason: "stolen" });
  await settle();
  assertEquals(lossOf(gone).reason, "unreachable", "the deadline came first");
});

Deno.test("Lease that is over before a timer has run sends no renewal, and is lost and cleaned up once", async () => {
  const { lease, clock, renewals, releases } = openLease();
  clock.block(PROVABLE_MS);
  await clock.pass(0);
  lease.lose("stolen");
  await settle();
  assertEquals([renewals.length, releases.length], [0, 1]);
  assertEquals(lossOf({ lease }).reason, "expired");
  const over = openLease();
  const released = over.lease.release();
  await settle();
  over.releases[0]!.answer({ state: "released" });
  assertEquals(await released, true);
  over.lease.lose("stolen");
  assertThrows(() => over.lease.throwIfLost(), LockError, "released");
  assertEquals([over.lease.signal.aborted, over.releases.length], [false, 1]);
});

Deno.test("Lease is lost at once when the answer to a renewal says that it is gone", async () => {
  for (const reason of ["expired", "stolen"] as const) {
    const service = openLease();
    const { signal } = service.lease;
    await service.clock.pass(990);
    service.renewals[0]!.answer({ state: "lost", reason });
    await settle();
    assert(signal.aborted);
    assertEquals(lossOf(service).reason, reason);
  }
});

Deno.test("Lease is lost with the cause that its strategy names or its last renewal had, and without one if there is none", async () => {
  const cause = new Error("session expired");
  const [named, unnamed] = [openLease(), openLease()];
  named.lease.lose("unreachable", cause);
  assertEquals(lossOf(named).cause, cause);
  unnamed.lease.lose("stolen");
  assert(!("cause" in lossOf(unnamed)));
  const failing = openLease();
  const [first, last] = [new Error("the first"), new Error("the last")];
  await failing.clock.pass(990);
  failing.renewals[0]!.fail(first);
  await failing.clock.pass(300); // the pause before the next one
  failing.renewals[1]!.fail(last);
  await failing.clock.pass(PROVABLE_MS);
  const loss = lossOf(failing);
  assertEquals(loss.reason, "unreachable");
  assert(loss.cause === last);
});

Deno.test("Lease.renew() waits for the answer and never shortens the lease", async () => {
  const { lease, clock, renewals } = openLease({ autoRenew: false });
  const renewed = lease.renew(60_000);
  await settle();
  renewals[0]!.answer({ state: "held", validMs: 60_000 });
  await renewed;
  assertEquals(lease.remainingMs, 60_000 - 602);
  const again = lease.renew(100);
  await settle();
  assertEquals(renewals[1]!.ttlMs, 100);
  renewals[1]!.answer({ state: "held", validMs: 60_000 });
  await again;
  assert(lease.remainingMs >= 60_000 - 602);
  await clock.pass(0);
});

Deno.test("Lease.renew() asks for the same end when it is retried, also after a suspension", async () => {
  const { lease, clock, renewals } = openLease({ autoRenew: false });
  const renewed = lease.renew(2_500);
  const calledMs = clock.now();
  const ends = () => renewals.map(({ ttlMs, sentMs }) => Math.floor(sentMs + ttlMs! - calledMs));
  const retried = async () => {
    for (const { length } = renewals; renewals.length === length;) await clock.pass(5);
  };
  await retried();
  await retried();
  assertEquals(ends(), [2_500, 2_500, 2_500]);
  clock.stepWall(300);
  await retried();
  assertEquals(ends().at(-1), 2_200);
  renewals.at(-1)!.answer({ state: "held", validMs: 1_500 });
  await renewed;
  const again = lease.renew(10);
  await retried();
  assertEquals(renewals.at(-1)!.ttlMs, 1, "only a proof is asked for");
  renewals.at(-1)!.answer({ state: "held", validMs: 1_000 });
  await again;
});

Deno.test("Lease.renew() asks for the whole TTL of the lease when it is retried without a TTL", async () => {
  const { lease, clock, renewals } = openLease({ autoRenew: false });
  const renewed = lease.renew();
  await clock.pass(1_000);
  assert(renewals.length > 1, "the renewal was retried");
  for (const { ttlMs } of renewals) assertEquals(ttlMs, 3_000);
  renewals.at(-1)!.answer({ state: "held", validMs: 3_000 });
  await renewed;
});

Deno.test("Lease.renew() rejects when the lease ends before an answer, and when its TTL is bad", async () => {
  const { lease, clock, renewals } = openLease({ autoRenew: false });
  for (const ttlMs of [9, 10.5, 2 ** 31]) await assertRejects(() => lease.renew(ttlMs), RangeError);
  await assertRejects(() => lease.renew("60" as unknown as number), TypeError);
  assertEquals(renewals.length, 0);
  const renewed = lease.renew();
  renewed.catch(() => {});
  await clock.pass(PROVABLE_MS + 1_000);
  await assertRejects(() => renewed, LeaseLostError);
});

Deno.test("Lease.release() waits for a renewal that is under way, and later ignores its answer", async () => {
  const { lease, clock, renewals, releases } = openLease();
  await clock.pass(990);
  const released = lease.release();
  await settle();
  assertEquals(releases.length, 0, "the release waits for the renewal that is under way");
  await clock.pass(500);
  assertEquals(releases.length, 1, "but no longer than its attempt may take");
  renewals[0]!.answer({ state: "held", validMs: 3_000 });
  releases[0]!.answer({ state: "released" });
  await settle();
  assertEquals(await released, true);
  assertEquals(lease.remainingMs, 0);
  assertEquals(clock.held, 0);
});

Deno.test("Lease.renew() rejects without a pause when the lease is released in the meantime", async () => {
  const { lease, renewals } = openLease();
  const renewing = lease.renew();
  const released = lease.release();
  released.catch(() => {});
  renewals[0]!.answer({ state: "held", validMs: 3_000 });
  await assertRejects(
    () => Promise.race([renewing, settle().then(() => "pending")]),
    LockError,
    "released",
  );
});

Deno.test("Lease.release() retries, and returns true when the lock is gone after an unanswered attempt", async () => {
  const { lease, clock, releases } = openLease();
  const { signal } = lease;
  const released = lease.release();
  await settle();
  releases[0]!.fail(new Error("connection lost"));
  await clock.pass(300);
  releases[1]!.answer({ state: "gone", reason: "expired" });
  await settle();
  assertEquals(await released, true);
  assert(!signal.aborted);
});

Deno.test("Lease.release() returns false when the first attempt finds the lock gone", async () => {
  const service = openLease();
  const released = service.lease.release();
  await settle();
  service.releases[0]!.answer({ state: "gone", reason: "stolen" });
  assertEquals(await released, false);
  assertEquals(lossOf(service).reason, "stolen");
  assert(!service.lease.signal.aborted);
});

Deno.test("Lease.release() resolves at the deadline at the latest, and is retried in the background", async () => {
  const { lease, clock, releases, engine } = openLease();
  let isOver = false;
  const released = lease.release().finally(() => isOver = true);
  await clock.pass(PROVABLE_MS - 1);
  assert(!isOver);
  await clock.pass(1);
  assert(isOver);
  assertEquals(await released, true);
  const before = releases.length;
  await clock.pass(1_000);
  assert(releases.length > before, "the background goes on releasing");
  await clock.pass(10_000);
  const last = releases.length;
  await clock.pass(10_000);
  assertEquals(releases.length, last, "the clean-up ends when the lock has certainly expired");
  await engine.close(1_000);
  assertEquals(clock.timers, 0);
});

Deno.test("Lease.release() limits an answer that is a promise of another realm, too", async () => {
  const never = runInNewContext("new Promise(() => {})") as Promise<ReleaseAnswer>;
  assert(!(never instanceof Promise));
  const { lease, clock } = openLease({}, { release: () => never });
  const released = lease.release();
  await clock.pass(PROVABLE_MS);
  assertEquals(await released, true);
});

Deno.test("Lease.release() waits for a renewal that is under way, but not beyond the deadline", async () => {
  const { lease, clock, releases } = openLease({ autoRenew: false });
  await clock.pass(PROVABLE_MS - 20);
  const renewed = assertRejects(() => lease.renew(), LockError, "released");
  let isOver = false;
  const released = lease.release().finally(() => isOver = true);
  await clock.pass(20);
  assert(isOver);
  assertEquals(await released, true);
  await clock.pass(600);
  assert(releases.length > 0, "it is released in the background");
  releases.at(-1)!.answer({ state: "released" });
  await clock.pass(600);
  await renewed;
  assertEquals(clock.timers, 0);
});

Deno.test("Lease.release() resolves at the deadline although its request waits for its turn, or has just had it", async () => {
  for (const hasTurn of [true, false]) {
    const { lease, clock, queue } = openQueued();
    await clock.pass(PROVABLE_MS - 100);
    let isOver = false;
    const released = lease.release().finally(() => isOver = true);
    await settle();
    const release = queue[1]!;
    await clock.pass(50);
    if (hasTurn) assert(release.request.onTurn());
    await clock.pass(49);
    assert(!isOver);
    await clock.pass(1);
    assert(isOver);
    assertEquals([await released, release.isWithdrawn], [true, !hasTurn]);
  }
  const { lease, clock, queue } = openQueued();
  await clock.pass(1_500);
  queue[0]!.request.onTurn();
  const released = lease.release();
  await settle();
  assertEquals([queue.length, queue[0]!.isWithdrawn], [1, false], "the renewal is under way");
  queue[0]!.send({ state: "held", validMs: 3_000 });
  await settle();
  queue[1]!.request.onTurn();
  await clock.pass(200);
  queue[1]!.send({ state: "released" });
  assertEquals([await released, queue.length, clock.timers], [true, 2, 0]);
});

Deno.test("Lease.release() is idempotent, and disposal does not reject after it", async () => {
  const { lease, releases } = openLease();
  const first = lease.release();
  const second = lease.release();
  await settle();
  releases[0]!.answer({ state: "released" });
  assertEquals(await Promise.all([first, second]), [true, false]);
  assertEquals(await lease.release(), false);
  await lease[Symbol.asyncDispose]();
  assertEquals(releases.length, 1);
  assertThrows(() => lease.throwIfLost(), LockError, "released");
});

Deno.test("Lease is released in the background when it was lost with a renewal unanswered", async () => {
  const { clock, releases } = openLease();
  await clock.pass(PROVABLE_MS);
  await clock.pass(600);
  assert(releases.length >= 1);
  releases.at(-1)!.answer({ state: "gone", reason: "expired" });
  await clock.pass(20_000);
  assertEquals(clock.timers, 0);
});

Deno.test("Lease is released in the background behind a renewal that is under way when it is lost", async () => {
  const { clock, lease, renewals, releases } = openLease();
  await clock.pass(990);
  assertEquals(renewals.length, 1);
  lease.lose("stolen");
  await settle();
  assertEquals(releases.length, 0, "the server could renew the lock after its release");
  renewals[0]!.answer({ state: "held", validMs: 3_000 });
  await settle();
  assertEquals(releases.length, 1);
});

Deno.test("Lease tells its strategy which releases are those of a lost lease", async () => {
  for (const isLost of [true, false]) {
    const { clock, engine } = openLease({ autoRenew: false });
    const told = new Set<boolean>();
    const lease = engine.open({
      ...{ name: "m", ownerId: "me", fencingToken: 8n, sent: instant(clock) },
      ...{ ttlMs: 3_000, validMs: 3_000, autoRenew: false },
    }, {
      release(isLost) {
        told.add(isLost);
        return Promise.resolve({ state: "unknown", cause: undefined });
      },
    })!;
    if (isLost) lease.lose("stolen");
    else lease.release();
    // Beyond the deadline: from then on the clean-up repeats the release.
    await clock.pass(PROVABLE_MS + 1_000);
    assertEquals([...told], [isLost]);
    await clock.pass(30_000);
  }
});

Deno.test("Lease is lost and released after maxHoldMs although it was renewed", async () => {
  const service = openLease({ maxHoldMs: 1_500 });
  assertEquals(service.lease.remainingMs, 1_500);
  await service.clock.pass(990);
  service.renewals[0]!.answer({ state: "held", validMs: 3_000 });
  await service.clock.pass(510);
  assertEquals(lossOf(service).reason, "max-hold");
  await service.clock.pass(500);
  assertEquals(service.releases.length, 1);
});

Deno.test("Lease whose deadline and maxHoldMs pass in one stall is lost by the one that came first", () => {
  for (const [maxHoldMs, reason] of [[2_000, "max-hold"], [4_000, "expired"]] as const) {
    const service = openLease({ maxHoldMs });
    service.clock.block(5_000);
    assertEquals(lossOf(service).reason, reason);
  }
});

Deno.test("Lease expires, and was not unreachable, when only a renewal before the last answer has failed", async () => {
  const { lease, clock, renewals } = openLease({ autoRenew: false });
  const renewed = lease.renew();
  await clock.pass(700); // the first attempt ends, and the next one follows a pause
  renewals[1]!.answer({ state: "held", validMs: 3_000 });
  await renewed;
  renewals[0]!.fail(new Error("the connection was lost"));
  await settle();
  await clock.pass(PROVABLE_MS);
  assertEquals(lossOf({ lease }).reason, "expired");
});

Deno.test("Lease is unproven after a suspension of the process until a new renewal is answered", async () => {
  const { lease, clock, renewals } = openLease();
  const { signal } = lease;
  clock.stepWall(60_000);
  assertEquals([lease.remainingMs, lease.isHeld], [0, false]);
  const error = assertThrows(() => lease.throwIfLost(), LeaseLostError);
  assertEquals(error.reason, "unreachable");
  assert(!signal.aborted, "a step of the wall clock alone ends no lease");
  await settle();
  assertEquals(renewals.length, 1, "one renewal is sent for a new proof");
  renewals[0]!.answer({ state: "held", validMs: 3_000 });
  await settle();
  assertEquals([lease.remainingMs, lease.isHeld], [PROVABLE_MS, true]);
  lease.throwIfLost();
});

Deno.test("Lease that is unproven is lost, and was not only released, when no release is answered", async () => {
  const { lease, clock } = openLease();
  clock.stepWall(3_600_000); // the machine slept
  const released = lease.release();
  await clock.pass(PROVABLE_MS);
  assertEquals(await released, false);
  assertEquals(lossOf({ lease }).reason, "unreachable");
});

Deno.test("Lease.renew() rejects when the answer after a suspension comes later than the end that it gives", async () => {
  const { lease, clock, renewals } = openLease();
  clock.stepWall(60_000); // the machine slept
  const renewed = lease.renew();
  await clock.pass(200);
  renewals[0]!.answer({ state: "held", validMs: 150 });
  const error = await assertRejects(() => renewed, LeaseLostError);
  assertEquals(error.reason, "expired");
});

Deno.test("Lease.renew() does not resolve by the answer to a request from before a suspension", async () => {
  const { lease, clock, renewals } = openLease({ autoRenew: false });
  let isResolved = false;
  const renewed = lease.renew().then(() => isResolved = true);
  await settle();
  clock.stepWall(60_000); // the machine slept while the request was under way
  renewals[0]!.answer({ state: "held", validMs: 3_000 });
  await settle();
  assertEquals(isResolved, false);
  await clock.pass(200); // the pause before the next one
  renewals.at(-1)!.answer({ state: "held", validMs: 3_000 });
  await renewed;
  assert(lease.isHeld);
});

Deno.test("Lease stays proven when a renewal from before a suspension is answered after a newer one", async () => {
  const { lease, clock, renewals } = openLease();
  await clock.pass(1_000);
  clock.stepWall(60_000);
  await clock.pass(700); // the attempt ends, and the next renewal follows a pause
  assertEquals([renewals.length, lease.remainingMs], [2, 0]);
  renewals[1]!.answer({ state: "held", validMs: 3_000 });
  await settle();
  assert(lease.remainingMs > 0);
  renewals[0]!.answer({ state: "held", validMs: 3_000 });
  await settle();
  lease.throwIfLost();
  assertEquals(renewals.length, 2, "it needs no other proof");
});

Deno.test("Lease is proven again without being prolonged when autoRenew is false", async () => {
  const { lease, clock, renewals } = openLease({ autoRenew: false });
  clock.stepWall(60_000);
  assertEquals(lease.remainingMs, 0);
  await clock.pass(10);
  assertEquals(renewals[0]!.ttlMs, 1);
  renewals[0]!.answer({ state: "held", validMs: 2_990 });
  await settle();
  assert(lease.remainingMs > 0 && lease.remainingMs <= PROVABLE_MS);
});

Deno.test("Lease without autoRenew ends as its proof after a suspension says, not at its old deadline", async () => {
  const { lease, clock, renewals } = openLease({ autoRenew: false });
  const { signal } = lease;
  await clock.pass(100);
  clock.stepWall(2_000); // the machine slept
  assertEquals(lease.remainingMs, 0);
  await clock.pass(10);
  renewals[0]!.answer({ state: "held", validMs: 890 });
  await settle();
  assert(lease.remainingMs > 0 && lease.remainingMs < 890 - 10);
  await clock.pass(890 - 10);
  assert(signal.aborted);
  assertEquals(lossOf({ lease }).reason, "expired");
});

Deno.test("Lease that renew() has prolonged ends as its proof after a suspension says, and is renewed before", async () => {
  const { lease, clock, renewals } = openLease();
  const prolonged = lease.renew(60_000);
  await settle();
  renewals[0]!.answer({ state: "held", validMs: 60_000 });
  await prolonged;
  clock.stepWall(50_000);
  assertEquals(lease.remainingMs, 0);
  await settle();
  renewals[1]!.answer({ state: "held", validMs: 10_000 });
  await settle();
  assert(lease.remainingMs > 0 && lease.remainingMs < 10_000);
  await clock.pass(8_000);
  assert(renewals.length > 2, "the next renewal is due");
  await clock.pass(2_000);
  assertEquals(lossOf({ lease }).reason, "unreachable");
});

Deno.test("Lease is not prolonged by an answer to a renewal from before the suspension that it has outlived", async () => {
  const { lease, clock, renewals } = openLease({ autoRenew: false });
  lease.renew(60_000).catch(() => {}); // is not answered in time
  await clock.pass(10);
  clock.stepWall(59_000);
  await clock.pass(1_000);
  assertEquals(lease.remainingMs, 0);
  renewals.at(-1)!.answer({ state: "held", validMs: 900 });
  await settle();
  assert(lease.remainingMs > 0);
  renewals[0]!.answer({ state: "held", validMs: 60_000 });
  await settle();
  const { remainingMs } = lease;
  assert(remainingMs > 0 && remainingMs < 900, `${remainingMs} ms`);
  await clock.pass(900);
  lossOf({ lease });
});

Deno.test("Lease.remainingMs does not change when the wall clock is set back", () => {
  const { lease, clock } = openLease();
  clock.stepWall(-3_600_000);
  assertEquals(lease.remainingMs, PROVABLE_MS);
});

Deno.test("Lease.extend() moves the deadline, but does not revive a lost lease", async () => {
  const { lease, clock } = openLease({ autoRenew: false });
  await clock.pass(1_000);
  lease.extend(instant(clock), 3_000);
  assertEquals(lease.remainingMs, PROVABLE_MS);
  await clock.pass(PROVABLE_MS);
  assertThrows(() => lease.throwIfLost(), LeaseLostError);
  lease.extend(instant(clock), 3_000);
  assertEquals(lease.remainingMs, 0);
});

Deno.test("Lease is unproven when a suspension was longer than the drift of its claim", () => {
  const { lease, clock } = openLease({ ttlMs: 60_000, validMs: 3_000 });
  assert(lease.remainingMs > 2_900);
  clock.stepWall(100); // less than the drift of the TTL, more than that of the claim
  assertEquals(lease.remainingMs, 0);
});

Deno.test("Lease is unproven by the drift of its last answer, and ends by itself when that says", async () => {
  const { lease, clock } = openLease({ autoRenew: false });
  lease.extend(instant(clock), 60_000, 60_000);
  clock.stepWall(100); // more than the drift of the first answer
  assertEquals(lease.isHeld, true);
  clock.stepWall(600);
  assertEquals(lease.isHeld, false);
  const asleep = openLease({ autoRenew: false, ttlMs: 60_000, validMs: 60_000 });
  const { signal } = asleep.lease;
  asleep.clock.stepWall(59_000);
  asleep.lease.extend(instant(asleep.clock), 900);
  await asleep.clock.pass(900 - 11 - 1);
  assertEquals(signal.aborted, false);
  await asleep.clock.pass(1);
  assertEquals(signal.aborted, true);
});

Deno.test("Lease.needsLock is true while the lock must stay held for it, whatever its holder sees", async () => {
  const unproven = openLease();
  unproven.clock.stepWall(60_000);
  assertEquals([unproven.lease.isHeld, unproven.lease.needsLock], [false, true]);

  const kept = openLease({ autoRenew: false });
  const closed = kept.engine.close(8_000);
  assertEquals([kept.lease.isHeld, kept.lease.needsLock], [false, true]);
  kept.lease.lose("stolen");
  assertEquals(kept.lease.needsLock, false);
  await kept.clock.pass(8_000);
  await closed;

  const left = openLease({ outlivesDisposal: true });
  await left.engine.close(8_000);
  left.lease.extend(instant(left.clock), 60_000, 60_000); // an answer that comes too late
  await left.clock.pass(PROVABLE_MS - 1);
  assertEquals([left.lease.isHeld, left.lease.needsLock], [false, true]);
  await left.clock.pass(1);
  assertEquals(left.lease.needsLock, false);

  const stolen = openLease({ outlivesDisposal: true });
  stolen.lease.lose("stolen");
  assertEquals(stolen.lease.needsLock, false);
});

Deno.test("Lease.remainingMs counts from the start of the grant when it came by a message", () => {
  const { lease } = openLease({ startMs: 900 });
  assertEquals(lease.remainingMs, PROVABLE_MS - 100);
});

Deno.test("Lease clean-up lasts as long as the longest TTL that was requested, answered or not", async () => {
  const { lease, clock, releases } = openLease({ autoRenew: false });
  lease.renew(60_000).catch(() => {}); // rejects: the lease is lost, but the server may still renew it
  await clock.pass(35_000);
  const before = releases.length;
  await clock.pass(5_000);
  assert(releases.length > before, "it still tries after the TTL of the grant");
  await clock.pass(60_000);
  const last = releases.length;
  await clock.pass(10_000);
  assertEquals(releases.length, last);
});

Deno.test("Lease clean-up lasts as long as a TTL that a request of another call has granted", async () => {
  const { lease, clock, releases } = openLease({ autoRenew: false });
  lease.extend(instant(clock), 60_000, 60_000);
  lease.lose("stolen");
  await clock.pass(50_000);
  const before = releases.length;
  await clock.pass(5_000);
  assert(releases.length > before, "it still tries after the TTL of the grant");
  await clock.pass(60_000);
  assertEquals(clock.timers, 0);
});

Deno.test("Lease clean-up lasts as long as the server keeps a lock that was taken over", async () => {
  const { lease, clock, releases } = openLease({ validMs: 60_000 });
  lease.lose("unreachable");
  await clock.pass(50_000);
  const before = releases.length;
  await clock.pass(5_000);
  assert(releases.length > before, "it still tries");
});

Deno.test("Lease clean-up of a lock that ends with a session lasts until the service answers", async () => {
  const { lease, clock, releases } = openLease({}, { lapsed: () => "session-expired" });
  lease.lose("stolen");
  await clock.pass(60_000);
  const before = releases.length;
  for (let i = 0; i < 50 && releases.length === before; i++) await clock.pass(100);
  assert(releases.length > before, "it still tries: a session may outlive every TTL");
  releases.at(-1)!.answer({ state: "released" });
  await clock.pass(10_000);
  const last = releases.length;
  await clock.pass(10_000);
  assertEquals(releases.length, last);
  assertEquals(clock.timers, 0);
});

Deno.test("Lease.release() takes an error that a strategy throws for no answer", async () => {
  let calls = 0;
  const release = () => {
    if (++calls === 1) throw new Error("not a promise");
    return Promise.resolve({ state: "released" } as const);
  };
  const { lease, clock } = openLease({}, { release });
  const released = lease.release();
  await clock.pass(1_000);
  assertEquals(await released, true);
  assertEquals(calls, 2);
});

Deno.test("Lease.release() rejects when the service refuses, each time it is called, and disposal does not", async () => {
  const { clock, lease, releases } = openLease();
  const cause = new Error("NOPERM");
  const [first, second] = [lease.release(), lease.release()];
  await settle();
  releases[0]!.fail(new Error("connection lost"));
  await clock.pass(300);
  releases[1]!.answer({ state: "refused", reason: "no right", cause });
  for (const call of [first, second, lease.release()]) {
    const error = await assertRejects(() => call, LockSetupError);
    assertEquals(error.message, 'Cannot release lock "n": no right');
    assertEquals([error.lockName, error.cause], ["n", cause]);
  }
  await lease[Symbol.asyncDispose]();
  assertThrows(() => lease.throwIfLost(), LockError, "released");
  await clock.pass(20_000);
  assertEquals([releases.length, clock.timers], [2, 0]);
});

Deno.test("Lease is not released again in the background when the service refuses after a loss", async () => {
  const { clock, lease, releases } = openLease();
  lease.lose("stolen");
  await settle();
  releases[0]!.answer({ state: "refused", reason: "no right", cause: undefined });
  await clock.pass(20_000);
  assertEquals([releases.length, clock.timers], [1, 0]);
  assertEquals(await lease.release(), false);
});

Deno.test("Lease shows its name, token and time in logs and as JSON, and never its owner id", () => {
  const { lease } = openLease();
  const shown = { name: "n", fencingToken: String(lease.fencingToken) };
  assertEquals(JSON.parse(JSON.stringify({ lease })), {
    lease: { ...shown, remainingMs: lease.remainingMs },
  });
  for (const text of [JSON.stringify(lease), Deno.inspect(lease), inspect(lease)]) {
    assert(text.includes(shown.fencingToken), text);
    assert(!/owner/i.test(text), text);
  }
});

Deno.test("Lease.release() is false when the lock is gone and no earlier attempt was executed", async () => {
  for (const isUnsent of [true, false]) {
    const { clock, lease, releases } = openLease();
    const released = lease.release();
    await settle();
    releases[0]!.answer({
      state: "unknown",
      cause: new Error("no connection"),
      isUnexecuted: isUnsent,
    });
    await clock.pass(500);
    releases[1]!.answer({ state: "gone", reason: "stolen" });
    assertEquals(await released, !isUnsent);
  }
});
