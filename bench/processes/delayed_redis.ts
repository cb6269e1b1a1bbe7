/**
 * A Redis server that is a round trip away.
 *
 * @module
 */
import { type ChildProcess, startChild } from "../../testing/processes/child.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { connectResp } from "../../testing/servers/resp.ts";
import { median } from "../library/statistics.ts";
import type { DelayProxyOptions } from "./delay_proxy.ts";

const PINGS = 150;
/** The proxy takes time too, so the delay is set in steps. */
const STEPS = 6;

/** A server, and the address at which clients reach it. */
export interface DelayedRedis extends AsyncDisposable {
  readonly server: RedisServer;
  readonly url: string;
}

/** Starts a server, and a proxy before it if the round trip is to be longer by so many ms. */
export async function startDelayedRedis(addedMs: number): Promise<DelayedRedis> {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startRedis());
  let { url } = server;
  if (addedMs > 0) {
    const options: DelayProxyOptions = { port: server.port };
    const proxy = stack.use(startChild(new URL("./delay_proxy.ts", import.meta.url), options));
    url = `redis://127.0.0.1:${await proxy.line()}`;
    await lengthen(proxy, url, await roundTripMs(server.url) + addedMs);
  }
  const owned = stack.move();
  return { server, url, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Sets the delay of a proxy so that a round trip takes so long. */
async function lengthen(proxy: ChildProcess, url: string, wantedMs: number): Promise<void> {
  let delayMs = 0;
  for (let step = 0; step < STEPS; step++) {
    delayMs = Math.max(0, delayMs + wantedMs - await roundTripMs(url));
    await proxy.send(String(delayMs));
  }
}

/** The median time of a PING. */
export async function roundTripMs(url: string): Promise<number> {
  using connection = await connectResp(url);
  const times: number[] = [];
  for (let i = 0; i < PINGS; i++) {
    const startMs = performance.now();
    await connection.command("PING");
    times.push(performance.now() - startMs);
  }
  return median(times);
}
