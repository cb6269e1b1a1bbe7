/** A body that arrives slowly, or never to its end, must not keep a request. */
import { assert, assertEquals } from "@std/assert";
import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";
import { openService } from "../../testing/lock_service/lock_service.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { pause } from "../../testing/servers/wait.ts";

const BOUND_MS = 10_000;

/** Sends the head of a request and parts of its body, and reads the answer until the server closes. */
async function trickle(url: string, parts: readonly string[], everyMs: number): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  let text = "";
  socket.setEncoding("utf8").on("data", (data) => text += data).on("error", () => {});
  const closed = new Promise<void>((resolve) => socket.on("close", () => resolve()));
  socket.write(
    "PUT /lock/a/i HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer alice\r\nContent-Length: 40\r\n\r\n",
  );
  for (const part of parts) {
    socket.write(part);
    await pause(everyMs);
  }
  const timer = setTimeout(() => socket.destroy(), BOUND_MS);
  await closed;
  clearTimeout(timer);
  return text;
}

Deno.test("lockRoutes() answers 408 and closes the connection when a body does not arrive within maxBodyMs", async () => {
  await using redis = await startRedis();
  await using service = await openService({ redisUrl: redis.url, routes: { maxBodyMs: 200 } });
  for (const parts of [[], ["{"], Array.from({ length: 8 }, () => " ")]) {
    const startMs = performance.now();
    const text = await trickle(service.url, parts, 50);
    assert(text.startsWith("HTTP/1.1 408 "), text);
    assert(text.includes("urn:holdfast:problem:body-timeout"), text);
    assert(performance.now() - startMs < BOUND_MS, "the server closes the connection");
  }
  assertEquals(await redis.command("KEYS", "lock:*"), []);
  assertEquals(service.errors, []);
});

Deno.test("lockRoutes() grants a PUT whose body arrives in parts within maxBodyMs, and waits longer than that", async () => {
  await using redis = await startRedis();
  await using service = await openService({ redisUrl: redis.url, routes: { maxBodyMs: 2_000 } });
  const body = `{"ttlMs": 60000, "waitMs": 10}`.padEnd(40);
  const read = trickle(service.url, [body.slice(0, 9), body.slice(9)], 20);
  const first = await Promise.race([read, pause(3_000).then(() => "open")]);
  assertEquals(first, "open", "the connection stays open, as it can be used again");
  assertEquals((await redis.command("KEYS", "lock:*") as string[]).length, 1);
  await service.app.close();
  assert((await read).startsWith("HTTP/1.1 200 "), await read);
});

Deno.test("lockRoutes() answers 408 over HTTP/2 when a body does not arrive within maxBodyMs", async () => {
  await using redis = await startRedis();
  const routes = { maxBodyMs: 200 };
  await using service = await openService({ redisUrl: redis.url, isHttp2: true, routes });
  const session = connectHttp2(service.url);
  const stream = session.request({
    ":path": "/lock/a/i",
    ":method": "PUT",
    authorization: "Bearer alice",
    "content-type": "application/json",
    "content-length": "40",
  });
  stream.write("{");
  const status = await new Promise((resolve, reject) => {
    stream.on("response", (headers) => resolve(headers[":status"]));
    stream.on("error", reject);
  });
  assertEquals(status, 408);
  stream.resume().end();
  session.destroy();
});
