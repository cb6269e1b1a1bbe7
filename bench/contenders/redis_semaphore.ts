/**
 * The mutex of the package `redis-semaphore` as a contender.
 *
 * @module
 */
import { Mutex } from "redis-semaphore";
import type { Contender } from "../library/contender.ts";
import { connectIoredis } from "./connections.ts";

/** Longer than any wait here. */
const ACQUIRE_MS = 600_000;

/** The package works with ioredis, and with clients that look like it. */
export const redisSemaphore: Contender = {
  name: "redis-semaphore",
  client: "ioredis",
  package: "redis-semaphore",
  has: { fencingToken: false, queue: false, renewal: true },
  sends: ["set", "evalsha", "eval"],
  async open(url, { ttlMs, pollMs }) {
    const client = await connectIoredis(url);
    const settings = { lockTimeout: ttlMs, acquireTimeout: ACQUIRE_MS, retryInterval: pollMs };
    return {
      async acquire(name) {
        const mutex = new Mutex(client, name, settings);
        await mutex.acquire();
        return mutex;
      },
      async [Symbol.asyncDispose]() {
        await client.quit();
      },
    };
  },
};
