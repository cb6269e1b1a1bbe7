/**
 * `ZooKeeperLock` at the port of another server: its error says what answered, and no socket stays open.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { startRedis } from "../../testing/servers/redis.ts";
import { recordTcp } from "../../testing/servers/silent_recorder.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { scaled } from "../../testing/time.ts";
import { LockSetupError, LockUnavailableError } from "../../mod.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";

Deno.test("ZooKeeperLock at a Redis, which waits in silence for more, says that it is one", async () => {
  await using server = await startRedis();
  const locks = new ZooKeeperLock(`127.0.0.1:${server.port}`);
  for (const options of [{}, { waitMs: scaled(3_000) }]) {
    const error = await assertRejects(() => locks.acquire("n", options), LockSetupError);
    const message = `Cannot reach ZooKeeper for lock "n": the connection failed ` +
      `(127.0.0.1:${server.port}: it answered "-ERR unknown command`;
    assert(error.message.startsWith(message), error.message);
    assert(error.message.endsWith("That is Redis: use RedisLock, or the address of ZooKeeper."));
    assert(!("cause" in error), String(error.cause));
  }
  await locks[Symbol.asyncDispose]();
  const others = async () => String(await server.command("CLIENT", "LIST")).trim().split("\n");
  await waitUntil("only the observer is connected", async () => (await others()).length === 1);
});

Deno.test("ZooKeeperLock at a web server says that it is one", async () => {
  const server = createServer();
  const { promise: listens, resolve } = Promise.withResolvers<void>();
  server.listen(0, "127.0.0.1", resolve);
  await listens;
  const { port } = server.address() as AddressInfo;
  try {
    await using locks = new ZooKeeperLock(`127.0.0.1:${port}`);
    const { message } = await assertRejects(() => locks.acquire("n"), LockSetupError);
    assert(
      message.includes('it answered "HTTP/1.1 400 Bad Request"). That is a web server'),
      message,
    );
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

Deno.test("ZooKeeperLock asks a silent server once who it is, and leaves no socket open", async () => {
  await using server = recordTcp();
  const locks = new ZooKeeperLock(server.address, {
    sessionTimeoutMs: scaled(600),
    unavailableAfterMs: scaled(1_500),
  });
  const { message } = await assertRejects(() => locks.acquire("n"), LockUnavailableError);
  assert(/in time\). Is it a ZooKeeper server, and in a quorum\?$/.test(message), message);
  const text = String.fromCharCode(...server.bytes);
  assertEquals(text.split("srvr\n").length, 2, text);
  await locks[Symbol.asyncDispose]();
  await waitUntil("no socket is open", () => server.open === 0);
});
