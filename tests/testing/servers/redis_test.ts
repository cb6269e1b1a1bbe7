import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { isStopped } from "../../../testing/runtime/processes.ts";
import { findServer, ownSource } from "../../../testing/servers/find.ts";
import { isAlive, startHolding } from "../../../testing/servers/process_checks.ts";
import { sharedRedis, startRedis } from "../../../testing/servers/redis.ts";
import { connectResp } from "../../../testing/servers/resp.ts";
import { waitUntil } from "../../../testing/servers/wait.ts";

Deno.test("startRedis() serves commands until its disposal", async () => {
  const server = await startRedis();
  assertEquals(await server.command("SET", "ключ", "two\r\nlines"), "OK");
  assertEquals(await server.command("GET", "ключ"), "two\r\nlines");
  assertEquals(await server.command("GET", "missing"), null);
  assertEquals(await server.command("INCRBY", "n", 7), 7);
  assertEquals(await server.command("MGET", "n", "missing"), ["7", null]);
  await assertRejects(() => server.command("INCR", "ключ"), Error, "not an integer");
  const replies = await Promise.all([server.command("ECHO", "a"), server.command("ECHO", "b")]);
  assertEquals(replies, ["a", "b"]);
  const long = "é".repeat(100_000);
  assertEquals(await server.command("ECHO", long), long);
  await server[Symbol.asyncDispose]();
  assertEquals(await isAlive(server.pid), false);
});

Deno.test("startRedis() starts servers that do not share data", async () => {
  await using first = await startRedis();
  await using second = await startRedis();
  await first.command("SET", "k", "first");
  assertEquals(await second.command("GET", "k"), null);
});

Deno.test("RedisServer.restart() starts a killed server on the same port with its data", async () => {
  await using server = await startRedis({ args: ["--appendonly", "yes"] });
  const { port, pid } = server;
  await server.command("SET", "k", "kept");
  await server.kill();
  assertEquals(await isAlive(pid), false);
  await assertRejects(() => server.command("PING"), Error);
  await server.restart();
  assertEquals(server.port, port);
  assertEquals(await server.command("GET", "k"), "kept");
  await server.restart();
  assertEquals(await server.command("GET", "k"), "kept");
});

Deno.test("RedisServer.resume() lets a paused server answer", async () => {
  await using server = await startRedis();
  await using other = await startRedis();
  await server.command("PING");
  await server.pause();
  let isAnswered = false;
  const answer = server.command("PING").then(() => isAnswered = true);
  // Of a container the process id is unknown.
  if ((await ownSource("redis")).kind === "local") assert(isStopped(server.pid) ?? true);
  for (let i = 0; i < 20; i++) await other.command("PING"); // an answer would have come, too
  assertEquals(isAnswered, false);
  await server.resume();
  await answer;
});

Deno.test("RedisServer ends on disposal while it is paused, and pending commands reject", async () => {
  const server = await startRedis();
  await server.command("PING");
  await server.pause();
  const waiting = assertRejects(() => server.command("PING"), Error);
  await server[Symbol.asyncDispose]();
  await waiting;
  assertEquals(await isAlive(server.pid), false);
});

Deno.test("connectResp() uses the password and the database of the URL", async () => {
  await using server = await startRedis();
  await server.command("ACL", "SETUSER", "me", "on", ">p@ss", "~*", "+@all");
  using connection = await connectResp(`redis://me:p%40ss@127.0.0.1:${server.port}/3`);
  await connection.command("SET", "k", "v");
  assertEquals(await server.command("GET", "k"), null);
  await server.command("SELECT", 3);
  assertEquals(await server.command("GET", "k"), "v");
  const wrong = () => connectResp(`redis://me:wrong@127.0.0.1:${server.port}`);
  await assertRejects(wrong, Error, "WRONGPASS");
});

Deno.test("sharedRedis() removes only the keys of the test", async () => {
  await using server = await startRedis();
  const shared = sharedRedis(server.url);
  for (let i = 0; i < 2_500; i++) void server.command("SET", `other:${i}`, i);
  await server.command("SET", "holdfast:other", "x");
  await shared.command("SET", `${shared.keyPrefix}a*[b]`, "x");
  await shared.command("SET", `holdfast:queue:{${shared.keyPrefix}a}`, "x");
  assertEquals(await server.command("DBSIZE"), 2_503);
  await shared[Symbol.asyncDispose]();
  assertEquals(await server.command("DBSIZE"), 2_501);
});

Deno.test("findServer() uses REDIS_URL for the conformance suite, and rejects when no Redis answers there", async () => {
  await using server = await startRedis();
  Deno.env.set("REDIS_URL", server.url);
  try {
    const { source, line } = await findServer("redis");
    assertEquals(source.shared, server.url);
    assert(source.own);
    assertStringIncludes(line, "REDIS_URL for the conformance suite");
    await server.kill();
    await assertRejects(() => findServer("redis"), Error, "unset REDIS_URL");
  } finally {
    Deno.env.delete("REDIS_URL");
  }
});

Deno.test("startRedis() leaves no server behind when its process is killed", async () => {
  await using parent = await startHolding("redis");
  parent.kill("SIGKILL");
  await waitUntil("the server is gone", async () => !await isAlive(parent.held.pid));
});

Deno.test("startRedis() leaves no server behind after Ctrl-C", async () => {
  await using parent = await startHolding("redis");
  parent.killGroup("SIGINT");
  await waitUntil("the server is gone", async () => !await isAlive(parent.held.pid));
});
