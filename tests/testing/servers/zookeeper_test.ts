import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { findServer } from "../../../testing/servers/find.ts";
import { isAlive } from "../../../testing/servers/process_checks.ts";
import {
  sharedZooKeeper,
  startZooKeeper,
  WORD_BOUNDS_MS,
} from "../../../testing/servers/zookeeper.ts";
import { called, withClient } from "../../../testing/servers/zookeeper_cleanup.ts";

Deno.test("startZooKeeper() serves until its disposal", async () => {
  const server = await startZooKeeper({ maxSessionTimeoutMs: 5_000 });
  assertMatch(await server.fourLetterWord("srvr"), /^Mode: standalone$/m);
  const settings = await server.fourLetterWord("conf");
  assertMatch(settings, /^tickTime=100$/m);
  assertMatch(settings, /^minSessionTimeout=200$/m);
  assertMatch(settings, /^maxSessionTimeout=5000$/m);
  await server[Symbol.asyncDispose]();
  assertEquals(await isAlive(server.pid), false);
});

Deno.test("ZooKeeperServer can be paused, killed and restarted on the same port", async () => {
  await using server = await startZooKeeper();
  const { connectString, pid } = server;
  await server.pause();
  await assertRejects(() => server.fourLetterWord("srvr", WORD_BOUNDS_MS), Error, "took longer");
  await server.resume();
  assertMatch(await server.fourLetterWord("srvr"), /^Mode: /m);
  await server.kill();
  assertEquals(await isAlive(pid), false);
  await server.restart();
  assertEquals(server.connectString, connectString);
  assert(server.pid !== pid);
  assertMatch(await server.fourLetterWord("srvr"), /^Mode: /m);
});

Deno.test("sharedZooKeeper() removes only the znodes of the test", async () => {
  await using server = await startZooKeeper();
  const shared = sharedZooKeeper(server.connectString);
  await withClient(server.connectString, async (client) => {
    for (const path of ["/other/a", `${shared.rootPath}/a/b`, `${shared.rootPath}/c`]) {
      await called("Making a node", (done) => client.mkdirp(path, done));
    }
    await shared[Symbol.asyncDispose]();
    const find = (path: string) =>
      called<unknown>("Finding a node", (done) => client.exists(path, done));
    assert(await find("/other/a"));
    assert(!await find(shared.rootPath));
  });
  await sharedZooKeeper(server.connectString)[Symbol.asyncDispose]();
});

Deno.test("findServer() uses ZOOKEEPER_CONNECT for the conformance suite, and rejects when no ZooKeeper answers there", async () => {
  await using server = await startZooKeeper();
  Deno.env.set("ZOOKEEPER_CONNECT", `127.0.0.1:1,${server.connectString}/chroot`);
  try {
    const { source, line } = await findServer("zookeeper");
    assertEquals(source.shared, Deno.env.get("ZOOKEEPER_CONNECT"));
    assert(source.own);
    assertStringIncludes(line, "ZOOKEEPER_CONNECT for the conformance suite");
    await server.kill();
    await assertRejects(() => findServer("zookeeper"), Error, "unset ZOOKEEPER_CONNECT");
  } finally {
    Deno.env.delete("ZOOKEEPER_CONNECT");
  }
});
