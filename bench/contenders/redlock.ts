/**
 * The package `redlock` as a contender.
 *
 * @module
 */
import Redlock from "redlock";
import type { Contender } from "../library/contender.ts";
import { connectIoredis } from "./connections.ts";

/** The package works with ioredis only. */
export const redlock: Contender = {
  name: "redlock",
  client: "ioredis",
  package: "redlock",
  has: { fencingToken: false, queue: false, renewal: false },
  sends: ["evalsha", "eval"],
  async open(url, { ttlMs, pollMs }) {
    const client = await connectIoredis(url);
    const settings = { retryCount: -1, retryDelay: pollMs, retryJitter: 0 };
    const locks = new Redlock([client], settings);
    locks.on("error", () => {}); // it reports each attempt that fails
    return {
      acquire: (name) => locks.acquire([name], ttlMs),
      async [Symbol.asyncDispose]() {
        await client.quit();
      },
    };
  },
};
