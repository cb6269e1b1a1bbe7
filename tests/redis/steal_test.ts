/**
 * Steals: from holders of other programs, and from holders that change.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { LockError, LockUnavailableError } from "../../mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { gated, type Gates } from "../../testing/redis/gated_client.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS } from "../../testing/time.ts";

/** Makes another program hold the lock, with a value that is not UTF-8. */
const SET_BINARY = "return redis.call('SET', KEYS[1], string.char(255, 0, 128) .. ARGV[1])";

async function play(
  scene: (server: RedisServer, lock: RedisLock, gates: Gates) => Promise<void>,
): Promise<void> {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("node-redis", server.url);
  const { client: far, gates } = gated(client);
  try {
    // A late answer would be asked for again, and counted.
    await using lock = new RedisLock(far, { commandTimeoutMs: CONDITION_BOUND_MS });
    await scene(server, lock, gates);
  } finally {
    await close();
  }
}

Deno.test("RedisLock.request() steals from a holder whose value is not text", () =>
  play(async (server, lock, gates) => {
    await server.command("EVAL", SET_BINARY, 1, "lock:n", "");
    const run = lock.request("n", { steal: true }, () => "stolen");
    assertEquals(await within("it steals", run), "stolen");
    assertEquals(count(gates, "query"), 1);
  }));

/** How often a script was sent, not counting a second time with its source. */
function count({ sent }: Gates, script: string): number {
  return sent.filter((each) => each.script === script && each.copy[0] === "EVALSHA").length;
}

/** Changes the holder before each steal. */
function changeHolder(server: RedisServer, gates: Gates): void {
  let changes = 0;
  gates.onRequest = async ({ script }) => {
    if (script === "steal") await server.command("EVAL", SET_BINARY, 1, "lock:n", ++changes);
  };
}

Deno.test("RedisLock.request() stops stealing when the holder changes again and again", () =>
  play(async (server, lock, gates) => {
    await server.command("SET", "lock:n", "first");
    changeHolder(server, gates);
    const run = lock.request("n", { steal: true }, () => {});
    const error = await within("it gives up", assertRejects(() => run, LockError));
    assert(!(error instanceof LockUnavailableError));
    assertEquals(
      error.message,
      'Cannot steal lock "n": its holder changed during each of 20 attempts; ' +
        "try again, or wait for the lock",
    );
    assertEquals(count(gates, "steal"), 20);
  }));

Deno.test("RedisLock.request() stops stealing when the lock manager is disposed", () =>
  play(async (server, lock, gates) => {
    await server.command("SET", "lock:n", "first");
    changeHolder(server, gates);
    const ended = assertRejects(() => lock.request("n", { steal: true }, () => {}), DOMException);
    await waitUntil("it tries", () => count(gates, "steal") > 2);
    await lock[Symbol.asyncDispose]();
    await within("it ends", ended);
    assert(count(gates, "steal") < 20);
  }));
