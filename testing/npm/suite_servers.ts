/**
 * The servers of the suites that run against the npm package.
 *
 * @module
 */
import { startRedis } from "../servers/redis.ts";
import { startZooKeeper } from "../servers/zookeeper.ts";
import type { SuiteServer } from "./conformance.ts";

/** Starts a Redis server. */
export async function redisForSuite(): Promise<SuiteServer> {
  const server = await startRedis();
  return { ...server, kind: "redis", address: server.url };
}

/** Starts a ZooKeeper server. */
export async function zooKeeperForSuite(): Promise<SuiteServer> {
  const server = await startZooKeeper();
  return { ...server, kind: "zookeeper", address: server.connectString };
}
