// A request that waits for a lock, gets it and loses it, under OpenTelemetry: with the SDK of Node, or with the one
// that Deno has built in. The argument has the address of Redis.
import { tracingChannel } from "node:diagnostics_channel";
import process from "node:process";
import { RedisLock } from "@holdfast/lock/redis";
import { ioredis } from "@holdfast/lock/redis/ioredis";
import { instrumentLocks } from "@holdfast/lock/otel";
import { context, trace } from "@opentelemetry/api";
import { Redis } from "ioredis";

const [url] = process.argv.slice(2);
let stop = async () => {};
if (!("deno" in process.versions)) {
  const { NodeSDK } = await import("@opentelemetry/sdk-node");
  const sdk = new NodeSDK();
  sdk.start();
  stop = () => sdk.shutdown();
}
const tracer = trace.getTracer("test");

// What an instrumentation of ioredis by its channels does.
const commands = new Map();
tracingChannel("ioredis:command").subscribe({
  start: (event) => {
    const attributes = { "db.operation.name": event.command };
    commands.set(event, tracer.startSpan("redis", { attributes }, context.active()));
  },
  asyncEnd: (event) => commands.get(event)?.end(),
});

const instrumented = instrumentLocks({ nameTemplate: (name) => name.replace(/\d+/g, "{id}") });
const clients = [new Redis(url), new Redis(url)];
const holders = new RedisLock(ioredis(clients[0]), { label: "nightly-export" });
const locks = new RedisLock(ioredis(clients[1]), { label: "checkout", ttlMs: 3_000 });

// The client subscribes, and learns the scripts.
await (await locks.acquire("warm-up")).release();
const held = await holders.acquire("order:42");
await tracer.startActiveSpan("request", async (request) => {
  const acquiring = locks.acquire("order:42", { maxHoldMs: 1_500 });
  let isBlocked = false;
  const blocked = () => isBlocked = true;
  const { subscribe, unsubscribe } = await import("node:diagnostics_channel");
  subscribe("holdfast:blocked", blocked);
  while (!isBlocked) await new Promise((resolve) => setTimeout(resolve, 5));
  unsubscribe("holdfast:blocked", blocked);
  await held.release();
  const { signal } = await acquiring;
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
  request.end();
});
const seen = await locks.tryAcquire("order:42", { waitMs: 5_000 });
if ((await holders.tryAcquire("order:42")) !== null) throw new Error("the lock is held");
await seen.release();

await locks[Symbol.asyncDispose]();
await holders[Symbol.asyncDispose]();
for (const client of clients) client.disconnect();
await stop();
instrumented[Symbol.dispose]();
