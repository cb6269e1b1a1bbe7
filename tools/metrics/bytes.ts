/**
 * Counts the bytes that the process allocates for a cycle on Redis: of the lock, and of the client package alone
 * for the same two commands.
 *
 * @module
 */
import { bytesPerCycle, type BytesWorkload, lockCycle } from "../../bench/guard/counts.ts";
import { connectIoredis, connectNodeRedis } from "../../bench/contenders/connections.ts";
import { ioredis, type IoredisClient } from "../../redis/clients/ioredis.ts";
import { nodeRedis } from "../../redis/clients/node_redis.ts";
import { type RedisClient, RedisLock } from "../../redis/mod.ts";
import { startRedis } from "../../testing/servers/redis.ts";

/** The client packages that are measured. */
export const BYTES_CLIENTS = ["ioredis", "node-redis"] as const;

/** What is measured in one process. */
export interface BytesJob {
  readonly client: typeof BYTES_CLIENTS[number];
  /** How many calls are in flight. */
  readonly calls: number;
}

/** The bytes of a cycle. */
export interface BytesResult {
  readonly ours: number;
  /** Of the client package alone. */
  readonly bare: number;
}

/** With calls in flight each one needs so many cycles. */
const WORKLOAD = { cyclesPerCall: 20, leastCycles: 300, rounds: 12 };
/** Long enough that nothing is renewed meanwhile. */
const TTL_MS = 60_000;
/** Where an ask says until when it may be executed, behind its digest, their number, 4 keys, value and TTL. */
const LAST_MOMENT = 2 + 4 + 2;

/** Without it node-redis makes an abort signal and a timer for each command; the adapter passes it, too. */
const NO_TIMEOUT = { timeout: undefined };

/** A client, as the lock uses it and as a program would use it without a lock. */
interface Opened {
  readonly port: RedisClient;
  /** Sends a command whose arguments are ready, in the way that costs least. */
  send(args: readonly string[]): Promise<unknown>;
  close(): void;
}

/** Measures both, one after the other. */
export async function measureBytes({ client, calls }: BytesJob): Promise<BytesResult> {
  await using server = await startRedis();
  const opened = await open(client, server.url);
  const cycles = Math.max(WORKLOAD.leastCycles, calls * WORKLOAD.cyclesPerCall);
  const workload: BytesWorkload = { calls, cycles, rounds: WORKLOAD.rounds };
  try {
    await using lock = new RedisLock(opened.port, { ttlMs: TTL_MS });
    const ours = await bytesPerCycle(lockCycle(lock), workload);
    const sent = await commandsOf(opened.port, calls);
    const bare = await bytesPerCycle(async (index) => {
      for (const args of sent[index]!) await opened.send(args);
    }, workload);
    return { ours, bare };
  } finally {
    opened.close();
  }
}

async function open(client: BytesJob["client"], url: string): Promise<Opened> {
  if (client === "ioredis") {
    const redis = await connectIoredis(url);
    return {
      port: ioredis(redis as unknown as IoredisClient),
      send: ([command, ...args]) => redis.call(command!, ...args),
      close: () => redis.disconnect(),
    };
  }
  const redis = await connectNodeRedis(url);
  return {
    port: nodeRedis(redis),
    send: (args) => redis.sendCommand(args as string[], NO_TIMEOUT as never),
    close: () => redis.destroy(),
  };
}

/** The commands of a cycle of each lock, as the lock has sent them: one ask and one leave. */
async function commandsOf(port: RedisClient, calls: number): Promise<string[][][]> {
  let sent: string[][] = [];
  const recording: RedisClient = Object.create(port, {
    send: {
      value(command: string, args: string[], key: string) {
        sent.push([command, ...args]);
        return port.send(command, args, key);
      },
    },
  });
  await using lock = new RedisLock(recording, { ttlMs: TTL_MS });
  const cycle = lockCycle(lock);
  await cycle(0); // also checks the server's memory
  await lock.query("idle");
  const commands: string[][][] = [];
  for (let index = 0; index < calls; index++) {
    sent = [];
    await cycle(index);
    if (sent.length !== 2) throw new Error(`A cycle sent ${sent.length} commands`);
    sent[0]![1 + LAST_MOMENT] = "0"; // it may be executed at any time
    commands.push(sent);
  }
  return commands;
}
