/**
 * This library's Redis lock as a contender.
 *
 * @module
 */
import { ioredis, type IoredisClient } from "../../redis/clients/ioredis.ts";
import { nodeRedis, type NodeRedisClient } from "../../redis/clients/node_redis.ts";
import { type RedisClient, RedisLock } from "../../redis/mod.ts";
import type { ClientName, Contender } from "../library/contender.ts";
import { connectIoredis, connectNodeRedis } from "./connections.ts";

/** A client as the lock takes it. */
interface Connection {
  readonly port: RedisClient;
  close(): Promise<unknown>;
}

/** This library with a client. */
export function holdfast(client: ClientName): Contender {
  return {
    name: "holdfast",
    client,
    package: "@holdfast/lock",
    has: { fencingToken: true, queue: true, renewal: true },
    sends: ["evalsha", "eval"],
    async open(url, { ttlMs }) {
      const { port, close } = await connect(client, url);
      const lock = new RedisLock(port, { ttlMs });
      return {
        acquire: (name) => lock.acquire(name),
        async [Symbol.asyncDispose]() {
          await lock[Symbol.asyncDispose]();
          await close();
        },
      };
    },
  };
}

async function connect(name: ClientName, url: string): Promise<Connection> {
  if (name === "ioredis") {
    const client = await connectIoredis(url);
    return { port: ioredis(client as unknown as IoredisClient), close: () => client.quit() };
  }
  const client = await connectNodeRedis(url);
  return { port: nodeRedis(client as unknown as NodeRedisClient), close: () => client.close() };
}
