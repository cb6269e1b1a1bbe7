/**
 * The package `redlock-universal` as a contender, in its fastest mode.
 *
 * @module
 */
import { createLock, IoredisAdapter, NodeRedisAdapter, type RedisAdapter } from "redlock-universal";
import type { ClientName, Contender } from "../library/contender.ts";
import { connectIoredis, connectNodeRedis } from "./connections.ts";

/** More attempts than any wait here needs. */
const ATTEMPTS = 1_000_000;

/** A client as the package takes it. */
interface Connection {
  readonly adapter: RedisAdapter;
  close(): Promise<unknown>;
}

/** The package with a client. */
export function redlockUniversal(client: ClientName): Contender {
  return {
    name: "redlock-universal",
    client,
    package: "redlock-universal",
    has: { fencingToken: false, queue: false, renewal: false },
    sends: ["set", "evalsha", "eval"],
    async open(url, { ttlMs: ttl, pollMs: retryDelay }) {
      const { adapter, close } = await connect(client, url);
      const settings = {
        adapter,
        ttl,
        retryDelay,
        retryAttempts: ATTEMPTS,
        performance: "lean",
      } as const;
      return {
        async acquire(key) {
          const lock = createLock({ ...settings, key });
          const handle = await lock.acquire();
          return { release: () => lock.release(handle) };
        },
        async [Symbol.asyncDispose]() {
          await close();
        },
      };
    },
  };
}

async function connect(name: ClientName, url: string): Promise<Connection> {
  if (name === "ioredis") {
    const client = await connectIoredis(url);
    return { adapter: new IoredisAdapter(client), close: () => client.quit() };
  }
  const client = await connectNodeRedis(url);
  return { adapter: NodeRedisAdapter.from(client as never), close: () => client.close() };
}
