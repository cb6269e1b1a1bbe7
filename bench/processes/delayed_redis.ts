/**
 * A Redis server that is a round trip away.
 *
 * @module
 */
import { startChild } from "../../testing/processes/child.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import type { DelayProxyOptions } from "./delay_proxy.ts";

/** A server, and the address at which clients reach it. */
export interface DelayedRedis extends AsyncDisposable {
  readonly server: RedisServer;
  readonly url: string;
}

/** Starts a server, and a proxy before it if the round trip is to be longer. */
export async function startDelayedRedis(delayMs: number): Promise<DelayedRedis> {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startRedis());
  let { url } = server;
  if (delayMs > 0) {
    const options: DelayProxyOptions = { port: server.port, delayMs };
    const proxy = stack.use(startChild(new URL("./delay_proxy.ts", import.meta.url), options));
    url = `redis://127.0.0.1:${await proxy.line()}`;
  }
  const owned = stack.move();
  return { server, url, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
