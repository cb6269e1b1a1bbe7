/**
 * The Redis clients of the benchmarks: our port, and the client's own commands for comparison.
 *
 * @module
 */
import { Redis } from "ioredis";
import { createClient } from "redis";
import { ioredis, type IoredisClient } from "../redis/clients/ioredis.ts";
import { nodeRedis, type NodeRedisClient } from "../redis/clients/node_redis.ts";
import type { RedisClient } from "../redis/mod.ts";

/** A connection. */
export interface BenchClient extends AsyncDisposable {
  /** The port that `RedisLock` uses. */
  readonly port: RedisClient;
  /** Sends a command with the client itself. */
  send(command: string, ...args: string[]): Promise<unknown>;
  /** Subscribes with the client itself, on a separate connection. */
  subscribe(channel: string, onMessage: () => void): Promise<void>;
}

/** Makes a connection to the server under test. */
export type Connect = () => Promise<BenchClient>;

async function connectNodeRedis(url: string): Promise<BenchClient> {
  const client = createClient({ url }).on("error", () => {});
  await client.connect();
  return {
    port: nodeRedis(client as unknown as NodeRedisClient),
    send: (command, ...args) => client.sendCommand([command, ...args]),
    async subscribe(channel, onMessage) {
      const subscriber = client.duplicate().on("error", () => {});
      await subscriber.connect();
      await subscriber.subscribe(channel, onMessage);
    },
    async [Symbol.asyncDispose]() {
      await client.close();
    },
  };
}

async function connectIoredis(url: string): Promise<BenchClient> {
  const client = new Redis(url, { lazyConnect: true }).on("error", () => {});
  await client.connect();
  return {
    port: ioredis(client as unknown as IoredisClient),
    send: (command, ...args) => client.call(command, ...args),
    async subscribe(channel, onMessage) {
      const subscriber = client.duplicate().on("error", () => {});
      await subscriber.subscribe(channel);
      subscriber.on("message", onMessage);
    },
    async [Symbol.asyncDispose]() {
      await client.quit();
    },
  };
}

/** How to connect with each client. */
export const CLIENTS: Readonly<Record<string, (url: string) => Promise<BenchClient>>> = {
  "node-redis": connectNodeRedis,
  ioredis: connectIoredis,
};
