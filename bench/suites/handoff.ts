/**
 * Handoffs between two clients of one process, in rounds interleaved with a ping-pong: two clients that
 * wake each other by a message in turns, each of which also sends one `SET NX PX`.
 *
 * @module
 */
import { startRedis } from "../../testing/servers/redis.ts";
import type { RedisClient } from "../../redis/mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { ioredis, type IoredisClient } from "../../redis/clients/ioredis.ts";
import { nodeRedis, type NodeRedisClient } from "../../redis/clients/node_redis.ts";
import { CLIENTS } from "../contenders/all.ts";
import { connectIoredis, connectNodeRedis } from "../contenders/connections.ts";
import type { ClientName } from "../library/contender.ts";
import type { FigureBook } from "../library/figures.ts";
import type { Progress } from "../library/progress.ts";
import { type Job, type RoundOptions, runRounds, stepsOf } from "../library/rounds.ts";
import type { SuiteOptions } from "../library/suite.ts";

/** The measure of both sides. */
export const HANDOFF_US = "µs per handoff in one process";
/** The name of the ping-pong among contenders. */
export const PING_PONG = "ping-pong";

const STEPS = 1_000;
const TTL_MS = 60_000;

/** A client, with what both sides need. */
interface Connection extends Disposable {
  readonly port: RedisClient;
  send(...words: string[]): Promise<unknown>;
  subscribe(channel: string, onMessage: () => void): Promise<void>;
}

/** Runs a number of steps; resolves when they are done. */
type Steps = (steps: number) => Promise<void>;

function waitersOf({ isQuick }: SuiteOptions): number[] {
  return isQuick ? [2, 100] : [2, 10, 100, 1_000, 10_000];
}

function roundsOf({ isQuick, rounds }: SuiteOptions): RoundOptions {
  if (rounds !== undefined) return { warmUp: Math.min(3, rounds), rounds };
  return isQuick ? { warmUp: 2, rounds: 6 } : { warmUp: 3, rounds: 11 };
}

/** How many steps {@linkcode measureHandoffs} will report. */
export function handoffSteps(options: SuiteOptions): number {
  return stepsOf((waitersOf(options).length + 1) * CLIENTS.length, roundsOf(options));
}

/** Measures handoffs and ping-pong with each client. */
export async function measureHandoffs(
  options: SuiteOptions,
  book: FigureBook,
  progress: Progress,
): Promise<void> {
  for (const client of CLIENTS) {
    await using server = await startRedis(); // waiters of the client before still hold their locks
    await using stack = new AsyncDisposableStack();
    const connect = async () => stack.use(await connectTo(client, server.url));
    const jobs = [jobOf(PING_PONG, { client }, await pingPong(connect))];
    for (const waiters of waitersOf(options)) {
      jobs.push(jobOf("holdfast", { client, waiters }, await handoffs(connect, waiters, stack)));
    }
    await runRounds(jobs, roundsOf(options), book, progress);
  }
}

function jobOf(contender: string, at: Job["at"], run: Steps): Job {
  return {
    contender,
    at,
    async run() {
      const startMs = performance.now();
      await run(STEPS);
      return { [HANDOFF_US]: ((performance.now() - startMs) * 1_000) / STEPS };
    },
  };
}

async function connectTo(name: ClientName, url: string): Promise<Connection> {
  if (name === "ioredis") {
    const client = await connectIoredis(url);
    let subscriber: typeof client | undefined;
    return {
      port: ioredis(client as unknown as IoredisClient),
      send: (command, ...args) => client.call(command!, ...args),
      async subscribe(channel, onMessage) {
        subscriber = client.duplicate().on("error", () => {});
        await subscriber.subscribe(channel);
        subscriber.on("message", onMessage);
      },
      [Symbol.dispose]() {
        subscriber?.disconnect();
        client.disconnect();
      },
    };
  }
  const client = await connectNodeRedis(url);
  let subscriber: typeof client | undefined;
  return {
    port: nodeRedis(client as unknown as NodeRedisClient),
    send: (...words) => client.sendCommand(words),
    async subscribe(channel, onMessage) {
      subscriber = client.duplicate().on("error", () => {});
      await subscriber.connect();
      await subscriber.subscribe(channel, onMessage);
    },
    [Symbol.dispose]() {
      subscriber?.destroy();
      client.destroy();
    },
  };
}

/** Waiters on two clients pass a lock around; between two rounds, its holder keeps it. */
async function handoffs(
  connect: () => Promise<Connection>,
  waiters: number,
  stack: AsyncDisposableStack,
): Promise<Steps> {
  const connections = [await connect(), await connect()];
  const locks = connections.map(({ port }) => stack.use(new RedisLock(port, { ttlMs: TTL_MS })));
  let left = 0;
  let finished = () => {};
  let paused: (() => void)[] = [];
  const wait = async (lock: RedisLock): Promise<void> => {
    for (;;) {
      const lease = await lock.acquire(`handoff:${waiters}`);
      if (--left === 0) finished();
      while (left <= 0) await new Promise<void>((resolve) => paused.push(resolve));
      await lease.release();
    }
  };
  for (let i = 0; i < waiters; i++) wait(locks[i % 2]!).catch(() => {});
  return (steps) => {
    left = steps;
    const done = new Promise<void>((resolve) => finished = resolve);
    const resumed = paused;
    paused = [];
    for (const resume of resumed) resume();
    return done;
  };
}

async function pingPong(connect: () => Promise<Connection>): Promise<Steps> {
  const clients = [await connect(), await connect()];
  let left = 0;
  let finished = () => {};
  const turn = (me: number) => {
    if (--left <= 0) return finished();
    clients[me]!.send("SET", "turn", String(left), "NX", "PX", "10000");
    clients[me]!.send("PUBLISH", `turn:${1 - me}`, "x");
  };
  for (const [i, client] of clients.entries()) await client.subscribe(`turn:${i}`, () => turn(i));
  return (steps) => {
    left = steps;
    const done = new Promise<void>((resolve) => finished = resolve);
    turn(0);
    return done;
  };
}
