/**
 * Redis clients of a cluster and of sentinels that log in as a user of their own, for tests of rights.
 *
 * @module
 */
import { Cluster, Redis } from "ioredis";
import { createCluster, createSentinel } from "redis";
import { ioredis } from "../../redis/clients/ioredis.ts";
import { nodeRedis } from "../../redis/clients/node_redis.ts";
import type { RedisClient } from "../../redis/mod.ts";
import { PRIMARY_NAME } from "../servers/redis_sentinel.ts";
import type { TopologyClientName } from "./acl_rule.ts";
import { noteOpen } from "./client_timers.ts";
import { endIoredis, endIoredisCluster } from "./clients.ts";

/** Where a client finds the servers, and as whom: the same user on all of them. */
export interface TopologyUsers {
  /** A node of the cluster, or the sentinels. */
  readonly addresses: readonly { readonly host: string; readonly port: number }[];
  readonly username: string;
  readonly password: string;
}

/** A client that connects. */
export interface TopologyClient extends AsyncDisposable {
  readonly client: RedisClient;
  /** Resolves when it has connected. It may never settle for a user that lacks a right. */
  readonly connected: Promise<unknown>;
}

/** Begins to connect. */
export function openAsUser(name: TopologyClientName, users: TopologyUsers): TopologyClient {
  const { addresses, username, password } = users;
  const login = { username, password };
  switch (name) {
    case "node-redis-cluster": {
      const rootNodes = addresses.map(({ host, port }) => ({ socket: { host, port } }));
      const client = createCluster({ rootNodes, defaults: login }).on("error", () => {});
      return opened(nodeRedis(client), client.connect(), () => client.isOpen && client.destroy());
    }
    case "node-redis-sentinel": {
      const client = createSentinel({
        name: PRIMARY_NAME,
        sentinelRootNodes: [...addresses],
        nodeClientOptions: login,
        sentinelClientOptions: login,
      }).on("error", () => {});
      return opened(nodeRedis(client), client.connect(), () => client.destroy());
    }
    case "ioredis-cluster": {
      const redisOptions = { ...login, disconnectTimeout: 1 };
      const client = new Cluster([...addresses], { redisOptions }).on("error", () => {});
      const ready = new Promise((resolve) => client.once("ready", resolve));
      return opened(ioredis(client), ready, () => {
        // One that connects in vain reports no end.
        return client.status === "ready" ? endIoredisCluster(client) : client.disconnect();
      });
    }
    case "ioredis-sentinel": {
      const client = new Redis({
        name: PRIMARY_NAME,
        sentinels: [...addresses],
        failoverDetector: true,
        ...login,
        sentinelUsername: username,
        sentinelPassword: password,
      }).on("error", () => {});
      const ready = new Promise((resolve) => client.once("ready", resolve));
      return opened(ioredis(client), ready, () => endIoredis(client));
    }
  }
}

function opened(
  client: RedisClient,
  connected: Promise<unknown>,
  close: () => unknown,
): TopologyClient {
  connected.catch(() => {});
  return { client, connected, [Symbol.asyncDispose]: noteOpen(close) };
}
