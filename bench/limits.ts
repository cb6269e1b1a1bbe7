/**
 * `deno run -A bench/limits.ts`: ten permits of `RedisLock` (`limit: 10`) beside those of the package
 * `redis-semaphore`, by turns in one run: uncontended, with waiters, their order, under load, and after a holder
 * has died; and the program of issue 205 of `redis-semaphore`, in which many callers share one object.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { setTimeout as pause } from "node:timers/promises";
import { Semaphore } from "redis-semaphore";
import { RedisLock } from "../redis/mod.ts";
import { ioredis } from "../redis/clients/ioredis.ts";
import { median } from "../testing/processes/figures.ts";
import { startRedis } from "../testing/servers/redis.ts";
import { connectIoredis } from "./contenders/connections.ts";

const PERMITS = 10;
const CYCLES = 1_000;
const HOLD_MS = 5;
const ROUND_MS = 5_000;
const ROUNDS = 3;
/** A dead holder blocks its permit for this long. */
const TTL_MS = 3_000;
const POLL_MS = 10;
/** Under load the event loop is blocked for so long, again and again, with this pause in between. */
const BLOCK_MS = 0.5 * TTL_MS;
const PAUSE_MS = 50;
/** A holder keeps its permit for several TTLs then. */
const BUSY_HOLD_MS = 3 * TTL_MS;
/** How long the program of issue 205 runs. A caller holds a permit for about `WORK_MS`. */
const ISSUE_MS = 30_000;
const WORK_MS = 100;
const [WORKERS, CALLERS] = [32, 10];
const NAME = "n";

/** A permit that is held. */
interface Permit {
  /** Whether the package has said that it was lost. */
  isLost(): boolean;
  release(): Promise<unknown>;
}

/** A library with one client. */
interface Contender extends AsyncDisposable {
  readonly name: string;
  acquire(): Promise<Permit>;
  /** The same by one object for all callers, which calls back each time that it has lost a permit. */
  acquireByOne(onLost: () => void): Promise<Pick<Permit, "release">>;
  /** Takes all permits, and ends as if its process had died. */
  die(): Promise<void>;
}

async function ours(url: string): Promise<Contender> {
  const client = await connectIoredis(url);
  const locks = new RedisLock(ioredis(client), { ttlMs: TTL_MS });
  const take = () => locks.acquire(NAME, { limit: PERMITS });
  return {
    name: "holdfast",
    async acquire() {
      const lease = await take();
      const { signal } = lease;
      return { isLost: () => signal.aborted, release: () => lease.release() };
    },
    async acquireByOne(onLost) {
      const lease = await take();
      lease.signal.addEventListener("abort", onLost);
      return lease;
    },
    async die() {
      await Promise.all(Array.from({ length: PERMITS }, take));
      client.disconnect();
    },
    async [Symbol.asyncDispose]() {
      await locks[Symbol.asyncDispose]();
      client.disconnect();
    },
  };
}

async function theirs(url: string): Promise<Contender> {
  const client = await connectIoredis(url);
  const times = { lockTimeout: TTL_MS, acquireTimeout: 600_000, retryInterval: POLL_MS };
  const take = async () => {
    let isLost = false;
    const onLockLost = () => isLost = true;
    const semaphore = new Semaphore(client, NAME, PERMITS, { ...times, onLockLost });
    await semaphore.acquire();
    return { semaphore, isLost: () => isLost, release: () => semaphore.release() };
  };
  let one: Semaphore | null = null;
  return {
    name: "redis-semaphore",
    acquire: take,
    async acquireByOne(onLockLost) {
      const refreshInterval = TTL_MS / 10; // as in the issue
      one ??= new Semaphore(client, NAME, PERMITS, { ...times, refreshInterval, onLockLost });
      await one.acquire();
      return one;
    },
    async die() {
      const permits = await Promise.all(Array.from({ length: PERMITS }, take));
      for (const { semaphore } of permits) semaphore.stopRefresh();
      client.disconnect();
    },
    // deno-lint-ignore require-await -- it has nothing to wait for
    async [Symbol.asyncDispose]() {
      client.disconnect();
    },
  };
}

async function uncontended({ acquire }: Contender): Promise<string> {
  const cyclesMs: number[] = [];
  for (let i = 0; i < CYCLES; i++) {
    const startMs = performance.now();
    await (await acquire()).release();
    cyclesMs.push(performance.now() - startMs);
  }
  return `a free permit ${median(cyclesMs).toFixed(2)} ms`;
}

/** So many callers more than permits, each in a loop. */
async function contended({ acquire }: Contender, waiters: number): Promise<string> {
  const waitsMs: number[] = [];
  const endMs = performance.now() + ROUND_MS;
  let [calls, lastCall, overtaken, lost] = [0, 0, 0, 0];
  const loop = async () => {
    while (performance.now() < endMs) {
      const [call, startMs] = [calls++, performance.now()];
      const permit = await acquire();
      waitsMs.push(performance.now() - startMs);
      if (call < lastCall) overtaken++;
      lastCall = Math.max(lastCall, call);
      await pause(HOLD_MS);
      if (permit.isLost()) lost++;
      await permit.release();
    }
  };
  await Promise.all(Array.from({ length: PERMITS + waiters }, loop));
  waitsMs.sort((a, b) => a - b);
  const at = (share: number) => waitsMs[Math.floor(share * (waitsMs.length - 1))]!.toFixed(1);
  const perSecond = Math.round(waitsMs.length / (ROUND_MS / 1_000));
  return `${waiters} wait: ${perSecond}/s, wait median ${at(0.5)} ms, 99 % ${at(0.99)} ms, ` +
    `longest ${at(1)} ms; ${overtaken} overtaken, ${lost} lost`;
}

/**
 * The event loop of a process that holds all permits is blocked again and again, for less than the TTL. Meanwhile
 * another process waits for a permit.
 */
async function underLoad(open: typeof ours, url: string): Promise<string> {
  await using busy = await open(url);
  const permits = await Promise.all(Array.from({ length: PERMITS }, () => busy.acquire()));
  const waiter = inProcess("--wait", open, url);
  const endMs = performance.now() + BUSY_HOLD_MS;
  while (performance.now() < endMs) {
    const blockedMs = performance.now() + BLOCK_MS;
    while (performance.now() < blockedMs);
    await pause(PAUSE_MS);
  }
  const lost = permits.filter((permit) => permit.isLost()).length;
  const isTaken = (await Promise.race([waiter.output(), pause(0)])) !== undefined;
  await Promise.all(permits.map((permit) => permit.release()));
  await waiter.status;
  return `an event loop blocked for ${BLOCK_MS} ms at a time (TTL ${TTL_MS} ms): ` +
    `${lost} of ${PERMITS} permits lost${isTaken ? ", one was taken by another process" : ""}`;
}

type Mode = "--wait" | "--one";

/** Starts a process that does this alone. */
function inProcess(mode: Mode, open: typeof ours, url: string): Deno.ChildProcess {
  const args = ["run", "-A", import.meta.filename!, mode, open.name, url];
  return new Deno.Command(Deno.execPath(), { args, stdout: "piped" }).spawn();
}

async function alone(mode: Mode, name: string, url: string): Promise<void> {
  const open = name === ours.name ? ours : theirs;
  if (mode === "--wait") await (await (await open(url)).acquire()).release();
  else console.log(await byOneObject(open, url));
  Deno.exit(0); // `redis-semaphore` goes on to renew after the program of the issue.
}

/**
 * The program of issue 205 of `redis-semaphore`: in each worker all callers share one object, and none awaits its
 * release. Returns how many work at once, and how often an object says that a permit was lost.
 */
async function byOneObject(open: typeof ours, url: string): Promise<string> {
  const workers = await Promise.all(Array.from({ length: WORKERS }, () => open(url)));
  const endMs = performance.now() + ISSUE_MS;
  const releases: Promise<unknown>[] = [];
  let [working, most, lost] = [0, 0, 0];
  const loop = async ({ acquireByOne }: Contender) => {
    while (performance.now() < endMs) {
      const permit = await acquireByOne(() => lost++);
      most = Math.max(most, ++working);
      await pause(WORK_MS * (0.5 + Math.random()));
      working--;
      releases.push(permit.release());
    }
  };
  await Promise.all(
    workers.flatMap((worker) => Array.from({ length: CALLERS }, () => loop(worker))),
  );
  await Promise.all(releases);
  return `${WORKERS} objects with ${CALLERS} callers each: at most ${most} work at once with ` +
    `${PERMITS} permits, lost ${lost} times`;
}

async function afterDeath(open: typeof ours, url: string): Promise<string> {
  const dead = await open(url);
  await using next = await open(url);
  await dead.die();
  const startMs = performance.now();
  await (await next.acquire()).release();
  return `the permits of a dead process after ${
    Math.round(performance.now() - startMs)
  } ms (TTL ${TTL_MS} ms)`;
}

async function main(): Promise<void> {
  for (let round = 1; round <= ROUNDS; round++) {
    for (const open of [ours, theirs]) {
      await using server = await startRedis();
      {
        await using contender = await open(server.url);
        const say = (text: string) => console.log(`round ${round}, ${contender.name}: ${text}`);
        say(await uncontended(contender));
        for (const waiters of [10, 100]) say(await contended(contender, waiters));
      }
      if (round > 1) continue;
      const { success, stdout } = await inProcess("--one", open, server.url).output();
      if (!success) throw new Error("The program of issue 205 has failed");
      console.log(new TextDecoder().decode(stdout).trimEnd());
      console.log(await underLoad(open, server.url));
      console.log(await afterDeath(open, server.url));
    }
  }
}

if (import.meta.main) {
  const [mode, name = "", url = ""] = Deno.args;
  await (mode === undefined ? main() : alone(mode as Mode, name, url));
}
