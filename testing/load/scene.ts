/**
 * A held lock, processes in which thousands of calls wait for it, and a bystander of the server.
 *
 * @module
 */
import { assert } from "@std/assert";
import { type LockKeys, lockKeys } from "../../redis/protocol/keys.ts";
import { RedisLock } from "../../redis/mod.ts";
import type { RedisClientName } from "../conformance/open_lock.ts";
import { within } from "../conformance/bounds.ts";
import { openRedisClient } from "../redis/clients.ts";
import { queuedValues } from "../redis/queue_reader.ts";
import { type RedisServer, startRedis } from "../servers/redis.ts";
import { pause, waitUntil } from "../servers/wait.ts";
import { type Bystander, startBystander } from "./bystander.ts";
import { BOUND_MS, type Line, lineUp, startLine } from "./waiting_lines.ts";
import { CONDITION_BOUND_MS, LONG_TTL_MS, scaled, TIME_FACTOR } from "../time.ts";

const NAME = "n";
const TTL_MS = LONG_TTL_MS;
const NONCE_LENGTH = "#0123456789abcdef".length;
/** Fewer commands than this in the time below, several times: nobody asks but the heartbeats. */
const SETTLED = 5;
const COUNT_FOR_MS = scaled(200);
/** On a busy machine a crowd may pause. */
const QUIET_TIMES = 3;

/** Options of {@linkcode openScene}. */
export interface SceneOptions {
  readonly waiters: number;
  readonly processes: number;
  readonly client: RedisClientName;
}

/** A scene. */
export interface Scene extends AsyncDisposable {
  readonly server: RedisServer;
  readonly keys: LockKeys;
  readonly lines: readonly Line[];
  readonly bystander: Bystander;
  /** After how many ms all calls had learned that they wait. */
  readonly queuedMs: number;
  /** The owner ids in the order of the server's queue. */
  readonly order: readonly string[];
  /** Releases the lock, which the scene has held so far. */
  release(): Promise<void>;
  /** How many scripts the clients have sent so far. */
  scripts(): Promise<number>;
  /** Waits until all processes are subscribed. */
  listening(): Promise<void>;
  /** Ends all but the server. */
  end(): Promise<void>;
  /** Waits until the waiters only wait. */
  settled(): Promise<void>;
  /** Waits until this many calls were granted the lock. */
  granted(count: number): Promise<void>;
}

/** Starts the processes, and makes their calls wait. */
export async function openScene(options: SceneOptions): Promise<Scene> {
  await using servers = new AsyncDisposableStack();
  const server = servers.use(await startRedis());
  await using stack = new AsyncDisposableStack();
  const holder = await openRedisClient("node-redis", server.url);
  stack.defer(() => holder.close());
  const lock = stack.use(new RedisLock(holder.client, { ttlMs: LONG_TTL_MS }));
  const held = await lock.acquire(NAME);
  const lines = await startLines(server, options);
  for (const line of lines) stack.use(line);
  const bystander = stack.use(await startBystander(server.url));
  const queuedMs = await lineUp(lines);
  const scripts = () => scriptsOf(server);
  const grants = () => lines.reduce((sum, line) => sum + line.grants.length, 0);
  const keys = lockKeys("lock:", NAME);
  const values = await queuedValues(server.command, keys);
  const clients = servers.use(stack.move());
  const owned = servers.move();
  return {
    ...{ server, keys, lines, bystander, queuedMs, scripts },
    order: values.map((value) => value.slice(0, -NONCE_LENGTH)),
    async release() {
      assert(await held.release());
    },
    listening: () => waitUntil("all listen", async () => await channels(server) === lines.length),
    end: () => clients.disposeAsync(),
    settled: () => within("all only wait", settled(scripts), BOUND_MS),
    granted: (count) => waitUntil(`${count} are granted`, () => grants() >= count, BOUND_MS),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function startLines(server: RedisServer, options: SceneOptions): Promise<Line[]> {
  const { waiters, processes, client } = options;
  const times = { ttlMs: TTL_MS, unavailableAfterMs: CONDITION_BOUND_MS };
  const common = { strategy: "redis", url: server.url, keyPrefix: "lock:", ...times } as const;
  const line = { spec: { ...common, client }, name: NAME, waiters: waiters / processes };
  return Promise.all(Array.from({ length: processes }, () => startLine(line)));
}

async function channels({ command }: RedisServer): Promise<number> {
  return (await command("PUBSUB", "CHANNELS") as unknown[]).length;
}

async function settled(scripts: () => Promise<number>): Promise<void> {
  for (let quiet = 0; quiet < QUIET_TIMES;) {
    const before = await scripts();
    await pause(COUNT_FOR_MS);
    quiet = await scripts() - before < SETTLED * TIME_FACTOR ? quiet + 1 : 0;
  }
}

async function scriptsOf({ command }: RedisServer): Promise<number> {
  const info = String(await command("INFO", "commandstats"));
  const calls = [...info.matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm)];
  return calls.reduce((sum, [, count]) => sum + Number(count), 0);
}
