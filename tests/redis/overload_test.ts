/**
 * More leases in one process than can be renewed in time: a server that answers so many commands a second,
 * in the time of a fake clock.
 */
import { assertEquals, assertGreater, assertLessOrEqual } from "@std/assert";
import { instant } from "../../core/time/clock.ts";
import type { LeaseActions } from "../../core/lease/grant.ts";
import type { ManagedLease } from "../../core/lease/lease.ts";
import { LeaseEngine } from "../../core/lease/lease_engine.ts";
import type { RedisClient } from "../../redis/client.ts";
import { MAX_UNANSWERED } from "../../redis/protocol/command_window.ts";
import { RedisCommands } from "../../redis/protocol/commands.ts";
import { lockKeys } from "../../redis/protocol/keys.ts";
import { RENEW } from "../../redis/protocol/scripts.ts";
import { DONE, NOTIFIED } from "../../redis/protocol/wire.ts";
import { FINISHED } from "../../testing/redis/wire_names.ts";
import { SharedTimer } from "../../redis/shared_timer.ts";
import { FakeClock } from "../../testing/core/fake_clock.ts";
import { say } from "../../testing/processes/figures.ts";

const TTL_MS = 10_000;
/** The TTL less 1 % and 2 ms of drift. */
const PROVABLE_MS = TTL_MS - 102;
const PER_SECOND = 2_000;
/** The same where the length of a stall does not count. The soak has the full figure. */
const STEADY_PER_SECOND = Deno.env.get("HOLDFAST_SOAK") ? PER_SECOND : 1_000;
const STEP_MS = 10;
/** In which time all leases are opened. */
const OPENING_MS = 8_000;

/** Answers commands in order, so many a second. */
class SlowServer implements RedisClient {
  readonly cluster = false;
  readonly epoch = 1;
  isStalled = false;
  renewals = 0;
  releases = 0;
  readonly #unanswered: (() => void)[] = [];
  perSecond: number;

  constructor(perSecond: number) {
    this.perSecond = perSecond;
  }

  send(_command: string, args: string[]): Promise<unknown> {
    const isRenewal = args[0] === RENEW.sha1;
    if (isRenewal) this.renewals++;
    else this.releases++;
    const reply = isRenewal ? [DONE, TTL_MS] : [DONE, NOTIFIED, FINISHED, 0];
    return new Promise((resolve) => this.#unanswered.push(() => resolve(reply)));
  }

  step(): void {
    if (this.isStalled) return;
    const count = this.perSecond * STEP_MS / 1_000;
    for (const answer of this.#unanswered.splice(0, count)) answer();
  }
}

/** A process with many leases. */
class Stage {
  readonly clock = new FakeClock();
  readonly server: SlowServer;
  readonly leases: ManagedLease[] = [];
  readonly #timer = new SharedTimer(this.clock);
  readonly #engine = new LeaseEngine("test", this.#timer);
  readonly #commands: RedisCommands;

  constructor(perSecond = PER_SECOND) {
    this.server = new SlowServer(perSecond);
    this.#commands = new RedisCommands(this.server, {
      clock: this.#timer,
      commandTimeoutMs: 5_000,
      unavailableAfterMs: 5_000,
      handoff: true,
      background: this.#engine.background,
      warn: () => {},
    });
  }

  get held(): number {
    return this.leases.filter(({ isHeld }) => isHeld).length;
  }

  async pass(durationMs: number): Promise<void> {
    for (let passedMs = 0; passedMs < durationMs; passedMs += STEP_MS) {
      await this.clock.pass(STEP_MS);
      this.server.step();
    }
  }

  async openAll(count: number): Promise<void> {
    const perStep = Math.ceil(count * STEP_MS / OPENING_MS);
    while (this.leases.length < count) {
      for (let i = 0; i < perStep && this.leases.length < count; i++) this.open();
      await this.pass(STEP_MS);
    }
  }

  /** @param times Of another grant than usual. */
  open(times: { ttlMs?: number; validMs?: number } = {}): void {
    const name = `n${this.leases.length}`;
    const keys = lockKeys("lock:", name);
    const actions: LeaseActions = {
      renew: (ttlMs, request) => this.#commands.renew(keys, name, ttlMs, request),
      release: async (_isLost, request) =>
        (await this.#commands.leave(keys, name, 0, false, request)).answer,
    };
    const terms = { name, ownerId: name, fencingToken: 1n, sent: instant(this.clock) };
    const usual = { ttlMs: TTL_MS, validMs: TTL_MS, autoRenew: true };
    this.leases.push(this.#engine.open({ ...terms, ...usual, ...times }, actions)!);
  }

  /** So many calls end at once and leave the queue. */
  leave(calls: number): void {
    for (let i = 0; i < calls; i++) {
      this.#commands.leave(lockKeys("lock:", `call ${i}`), "call", 0, false);
    }
  }

  /** Asks again and again in so many calls at once. Counts the answers. */
  ask(calls: number): { answered: number } {
    const count = { answered: 0 };
    const window = this.#commands.windowOf("");
    const again = async () => {
      const turn = window.take() ? null : window.askTurn(null);
      await turn?.come;
      turn?.take();
      await this.server.send("EVALSHA", ["ask"]);
      window.free(true);
      count.answered++;
      again();
    };
    for (let i = 0; i < calls; i++) again();
    return count;
  }

  /** How many of these leases cannot be renewed in time if the server answers from now on. */
  get doomed(): number {
    const lefts = this.leases.map(({ remainingMs }) => remainingMs).filter((leftMs) => leftMs > 0);
    let answered = 0;
    for (const leftMs of lefts.sort((a, b) => a - b)) {
      if ((answered + 1) * 1_000 / this.server.perSecond < leftMs) answered++;
    }
    return lefts.length - answered;
  }
}

Deno.test("RedisLock renews as many leases as its deadlines allow, each once in its time", async () => {
  const stage = new Stage(STEADY_PER_SECOND);
  const count = 8 * STEADY_PER_SECOND;
  await stage.openAll(count);
  const before = stage.server.renewals;
  await stage.pass(30_000);
  assertEquals([stage.held, stage.server.releases], [count, 0]);
  assertLessOrEqual(stage.server.renewals - before, 30 * STEADY_PER_SECOND + 256);
});

Deno.test("RedisLock loses only the leases that it cannot renew in time when there are too many", async () => {
  const stage = new Stage(STEADY_PER_SECOND);
  const count = 12 * STEADY_PER_SECOND;
  await stage.openAll(count);
  await stage.pass(3 * TTL_MS);
  const most = STEADY_PER_SECOND * PROVABLE_MS / 1_000;
  say(`of ${count} leases ${stage.held} are held; the deadlines allow ${most}`);
  assertGreater(stage.held, 0.93 * most);
  const { held } = stage;
  await stage.pass(30_000);
  assertEquals(stage.held, held, "no other leases are lost later");
});

Deno.test("RedisLock answers asks while renewals wait for their turns, and loses no lease by that", async () => {
  const stage = new Stage(STEADY_PER_SECOND);
  const count = 8 * STEADY_PER_SECOND;
  await stage.openAll(count);
  await stage.pass(5_000);
  const asks = stage.ask(100);
  await stage.pass(20_000);
  say(`${asks.answered / 20} asks a second of ${STEADY_PER_SECOND} commands`);
  assertGreater(asks.answered, 20 * STEADY_PER_SECOND / 8 * 0.9);
  assertEquals(stage.held, count);
});

const STALLS = [
  { count: 10_000, stallMs: 3_000 },
  { count: 16_000, stallMs: 3_000 },
  { count: 18_000, stallMs: 5_000 },
  // Answers then take longer than those leases have left whose turn comes.
  { count: 15_000, stallMs: 3_000, perSecond: PER_SECOND / 2 },
];

for (const { count, stallMs, perSecond = PER_SECOND } of STALLS) {
  const stalled = `a stall of ${stallMs} ms` +
    (perSecond === PER_SECOND ? "" : " and a slower server");
  Deno.test(`RedisLock loses no more leases than it must by ${stalled}, of ${count}`, async () => {
    const stage = new Stage();
    await stage.openAll(count);
    await stage.pass(10_000);
    assertEquals(stage.held, count);
    stage.server.isStalled = true;
    await stage.pass(stallMs);
    stage.server.isStalled = false;
    stage.server.perSecond = perSecond;
    const lostBy = { stall: count - stage.held, deadlines: stage.doomed };
    await stage.pass(2 * TTL_MS);
    const lost = count - stage.held;
    const { stall, deadlines } = lostBy;
    say(`of ${count} leases ${lost} are lost; the deadlines demand ${stall} + ${deadlines}`);
    // An answer takes as long as those of all commands that are sent.
    assertLessOrEqual(lost, stall + deadlines + MAX_UNANSWERED + 0.05 * count);
  });
}

Deno.test("RedisLock renews a short claim on a long TTL while other commands wait", async () => {
  const stage = new Stage();
  stage.ask(1_000);
  for (const ttlMs of [150_000, 3_600_000]) stage.open({ ttlMs, validMs: 3_000 });
  await stage.pass(10_000);
  assertEquals(stage.held, 2);
});

Deno.test("RedisLock renews leases while thousands of calls leave the queue", async () => {
  const stage = new Stage(500);
  const count = 1_000;
  await stage.openAll(count);
  stage.leave(4 * count);
  await stage.pass(15_000);
  assertEquals(stage.held, count);
});

Deno.test("RedisLock renews leases while thousands of others are released", async () => {
  const stage = new Stage(500);
  const count = 1_000;
  await stage.openAll(5 * count);
  const released = stage.leases.splice(0, 4 * count);
  for (const lease of released) lease.release();
  await stage.pass(15_000);
  assertEquals(stage.held, count);
});
