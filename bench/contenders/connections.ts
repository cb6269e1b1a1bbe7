/**
 * Connections of both Redis clients.
 *
 * @module
 */
import { Redis } from "ioredis";
import { createClient } from "redis";

/** Connects with ioredis. */
export async function connectIoredis(url: string): Promise<Redis> {
  const client = new Redis(url, { lazyConnect: true });
  client.on("error", () => {});
  await client.connect();
  return client;
}

/** The node-redis client with its default settings. */
export type NodeRedis = ReturnType<typeof newNodeRedis>;

/** Connects with node-redis. */
export async function connectNodeRedis(url: string): Promise<NodeRedis> {
  const client = newNodeRedis(url);
  client.on("error", () => {});
  await client.connect();
  return client;
}

function newNodeRedis(url: string) {
  return createClient({ url });
}
