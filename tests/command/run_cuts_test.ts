/**
 * `holdfast run` cut off from its server: the command is gone before the lock is granted again.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import process from "node:process";
import { text } from "node:stream/consumers";
import type { RedisLock } from "../../redis/mod.ts";
import { isGone, OBEDIENT, startCommand, STUBBORN } from "../../testing/command/holdfast.ts";
import { lockOn } from "../../testing/command/redis_locks.ts";
import { say } from "../../testing/processes/figures.ts";
import {
  type Shown,
  type Stalls,
  untilShown,
  watchStalls,
} from "../../testing/processes/stalls.ts";
import { type FaultProxy, startProxy } from "../../testing/servers/proxy.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { CONDITION_BOUND_MS, FAULT_TTL_MS, scaled } from "../../testing/time.ts";

const IS_SOAK = process.env.HOLDFAST_SOAK === "1";
/** How many commands run at the same time, each under a lock of its own. */
const LANES = IS_SOAK ? 10 : 2;
/** KILL is sent 4 % of the TTL before the deadline: a late machine must stay within that. */
const TTL_MS = scaled(8_000);
const KILL_EARLY_MS = 0.04 * TTL_MS;

/** Keeps `holdfast` from the server. Returns what ends that. */
type Cut = (server: RedisServer, proxy: FaultProxy) => () => void;

interface Fault {
  /** How many commands are cut off in a soak. */
  readonly commands: number;
  /** Whether nobody else can reach the server either. */
  readonly isForAll: boolean;
  readonly cut: Cut;
}

const FAULTS: Readonly<Record<string, Fault>> = {
  "a partition": {
    commands: 200,
    isForAll: false,
    cut(_server, proxy) {
      proxy.blackHole("both");
      return () => {};
    },
  },
  "a freeze of the path": {
    commands: 100,
    isForAll: false,
    cut(_server, proxy) {
      const { promise: until, resolve } = Promise.withResolvers<void>();
      proxy.onRequest = proxy.onReply = () => ({ until }); // all arrives, but late
      return resolve;
    },
  },
  "a freeze of the server": {
    commands: 100,
    isForAll: true,
    cut({ pid }) {
      process.kill(pid!, "SIGSTOP");
      return () => process.kill(pid!, "SIGCONT");
    },
  },
};

/** Waits for the lock of a command. The command must be gone when it is granted, unless this machine has stalled. */
async function takeOver(
  locks: RedisLock,
  name: string,
  pid: number,
  stalls: Stalls,
): Promise<Shown> {
  await using lease = await locks.acquire(name, { waitMs: CONDITION_BOUND_MS });
  const isInTime = isGone(pid);
  // A stall that covers the time between KILL and the end of the TTL makes the kill and the grant due at once.
  if (!isInTime && stalls.longestMs > KILL_EARLY_MS) return "stalled";
  assert(isInTime, `the command of ${name} still runs`);
  assert(lease.isHeld);
  return "shown";
}

/** Cuts one command off in each lane. */
async function cutOff(
  what: string,
  { isForAll, cut }: Fault,
  server: RedisServer,
  locks: RedisLock,
): Promise<Shown> {
  await using proxy = await startProxy(server);
  const url = `redis://127.0.0.1:${proxy.port}?ttlMs=${TTL_MS}`;
  const options = ["--kill-after", `${0.4 * TTL_MS}ms`];
  const names = Array.from({ length: LANES }, (_, lane) => `${what}, ${lane}`);
  const running = await Promise.all(names.map(async (name) => {
    const each = await startCommand(["run", ...options, name, "--", ...STUBBORN], url);
    return { name, ...each, stderr: text(each.holdfast.stderr!) };
  }));
  using stalls = watchStalls();
  const heal = cut(server, proxy);
  const taken = running.map(({ name, pid }) => takeOver(locks, name, pid, stalls));
  if (isForAll) await Promise.all(running.map(({ holdfast }) => holdfast.ended));
  else await Promise.all(taken);
  heal();
  const shown = await Promise.all(taken);
  for (const { name, holdfast, stderr } of running) {
    assertEquals((await holdfast.ended).code, 76);
    assertMatch(
      await stderr,
      new RegExp(`no renewal of "${name}" was answered|Lost the lease on lock "${name}"`),
    );
  }
  return shown.includes("stalled") ? "stalled" : "shown";
}

async function underFault(what: string, fault: Fault): Promise<void> {
  await using server = await startRedis();
  await using mine = await lockOn(server);
  const total = IS_SOAK ? fault.commands : LANES;
  for (let done = 0; done < total; done += LANES) {
    await untilShown(() => cutOff(what, fault, server, mine.locks));
  }
  if (IS_SOAK) say(`holdfast run: ${total} commands in ${what}, each gone before the next grant`);
}

Deno.test("holdfast run: in a partition, or a freeze of the path or the server, the command is gone before the lock is granted again", async () => {
  // All at once: each takes a TTL, which is long.
  const ends = await Promise.allSettled(Object.entries(FAULTS).map((each) => underFault(...each)));
  for (const end of ends) if (end.status === "rejected") throw end.reason;
});

Deno.test("holdfast run: a command that was told to end because of an outage is 76, also if it ends with 0", async () => {
  await using server = await startRedis();
  await using proxy = await startProxy(server);
  const url = `redis://127.0.0.1:${proxy.port}?ttlMs=${FAULT_TTL_MS}`;
  const { holdfast, closed } = await startCommand(["run", "a", "--", ...OBEDIENT], url);
  const stderr = text(holdfast.stderr!);
  proxy.blackHole("both");
  assertEquals((await holdfast.ended).code, 76);
  await closed;
  assertMatch(await stderr, /no renewal of "a" was answered/);
});
