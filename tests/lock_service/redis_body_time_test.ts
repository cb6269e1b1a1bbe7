/** A body that arrives slowly, or never to its end, must not keep a request. */
import { assert, assertEquals } from "@std/assert";
import { connect } from "node:net";
import { connectHttp2 } from "../../testing/http/http2_client.ts";
import { call, openService } from "../../testing/lock_service/lock_service.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { scaled } from "../../testing/time.ts";

/** The time limit of a body that never arrives. */
const SHORT_BODY_MS = scaled(200);
/** The time limit of a body that arrives. */
const BODY_MS = scaled(1_000);

/** Connects, and sends the head of a PUT. */
function connectPut(url: string) {
  const { hostname, port } = new URL(url);
  const connection = { text: "", isClosed: false };
  const socket = connect(Number(port), hostname);
  socket.setEncoding("utf8").on("data", (data) => connection.text += data).on("error", () => {});
  socket.on("close", () => connection.isClosed = true);
  const send = (text: string) => void socket.write(text);
  send(
    "PUT /lock/a/i HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer alice\r\nContent-Length: 40\r\n\r\n",
  );
  return { connection, send };
}

Deno.test("lockRoutes() answers 408 and closes the connection when a body does not arrive within maxBodyMs", async () => {
  await using redis = await startRedis();
  const routes = { maxBodyMs: SHORT_BODY_MS };
  await using service = await openService({ redisUrl: redis.url, routes });
  for (const [first, more] of [["", ""], ["{", ""], ["", " "]] as const) {
    const { connection, send } = connectPut(service.url);
    send(first);
    // Parts that keep coming do not extend the time: the whole body would take 40 of them.
    for (let parts = 0; !connection.isClosed && parts < 39; parts++) {
      send(more);
      await pause(SHORT_BODY_MS / 4);
    }
    await waitUntil("the server closes the connection", () => connection.isClosed);
    assert(connection.text.startsWith("HTTP/1.1 408 "), connection.text);
    assert(connection.text.includes("urn:holdfast:problem:body-timeout"), connection.text);
  }
  assertEquals(await redis.command("KEYS", "lock:*"), []);
  assertEquals(service.errors, []);
});

Deno.test("lockRoutes() grants a PUT whose body arrives in parts within maxBodyMs, and waits longer than that", async () => {
  await using redis = await startRedis();
  let received = () => 0;
  await using service = await openService({
    redisUrl: redis.url,
    routes: { maxBodyMs: BODY_MS },
    prepare: ({ server }) =>
      void server.on("connection", (socket) => received = () => socket.bytesRead),
  });
  const ttlMs = BODY_MS + 300;
  assertEquals((await call(service.url, "PUT", "/lock/a/x", { body: { ttlMs } })).status, 200);
  received = () => 0;
  const { connection, send } = connectPut(service.url);
  const body = `{"ttlMs": 20000, "waitMs": 30000}`.padEnd(40);
  await waitUntil("the head arrives", () => received() > 0);
  const before = received();
  send(body.slice(0, 9));
  await waitUntil("a part arrives", () => received() >= before + 9);
  send(body.slice(9));
  await waitUntil("the lease before it has expired", () => connection.text !== "");
  assert(connection.text.startsWith("HTTP/1.1 200 "), connection.text);
  connection.text = "";
  send("GET /lock/a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer alice\r\n\r\n");
  await waitUntil("the connection is used again", () => connection.text !== "");
  assert(connection.text.startsWith("HTTP/1.1 200 "), connection.text);
  await service.app.close();
  await waitUntil("the connection is closed", () => connection.isClosed);
});

Deno.test("lockRoutes() answers 408 over HTTP/2 when a body does not arrive within maxBodyMs", async () => {
  await using redis = await startRedis();
  const routes = { maxBodyMs: SHORT_BODY_MS };
  await using service = await openService({ redisUrl: redis.url, isHttp2: true, routes });
  using connection = connectHttp2(service.url);
  const stream = connection.session.request({
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
});
