/**
 * The locks of one checkout, reached through its public entries only.
 *
 * @module
 */
import { createClient } from "redis";
import type { RedisClient, RedisLock, RedisLockOptions } from "../../redis/mod.ts";
import type { VersionArguments } from "./jobs.ts";

/** A version, and clients to use it with. */
export interface Version extends AsyncDisposable {
  readonly arguments: VersionArguments;
  /** Connects a new client and wraps it in the version's own adapter. */
  port(): Promise<RedisClient>;
  lock(port: RedisClient, options?: RedisLockOptions): RedisLock;
}

/** Loads the entries of a checkout. Their types are taken from the tree that this file is in. */
export async function loadVersion(given: VersionArguments): Promise<Version> {
  const { tree, redisUrl } = given;
  const { RedisLock }: typeof import("../../redis/mod.ts") = await import(`${tree}redis/mod.ts`);
  const { nodeRedis }: typeof import("../../redis/clients/node_redis.ts") = await import(
    `${tree}redis/clients/node_redis.ts`
  );
  const clients: { destroy(): void }[] = [];
  return {
    arguments: given,
    async port() {
      // The timer of each command would fire seconds later, while another round is measured.
      const client = createClient({ url: redisUrl, commandOptions: { timeout: 0 } }).on(
        "error",
        () => {},
      );
      await client.connect();
      clients.push(client);
      return nodeRedis(client as unknown as Parameters<typeof nodeRedis>[0]);
    },
    lock: (port, options) => new RedisLock(port, options),
    [Symbol.asyncDispose]() {
      for (const client of clients.splice(0)) client.destroy();
      return Promise.resolve();
    },
  };
}

/** The same port with some members replaced. It may have members that this tree does not know. */
export function portWith(port: RedisClient, members: Partial<RedisClient>): RedisClient {
  return new Proxy(port, {
    get(target, name) {
      const member = Reflect.get(name in members ? members : target, name);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
}
