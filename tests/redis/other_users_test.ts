/**
 * The page says which rights keep other programs away from the locks: with them no command does them harm.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { RedisLock } from "../../redis/mod.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { connectResp } from "../../testing/servers/resp.ts";
import { LONG_TTL_MS } from "../../testing/time.ts";

const PAGE = Deno.readTextFileSync(new URL("../../docs/safety.md", import.meta.url));
const KEY = "lock:n";

/** Commands that would delete a lock, replace it, read its owner, or wake its waiters. */
const HARM: readonly (readonly (string | number)[])[] = [
  ["DEL", KEY],
  ["UNLINK", KEY],
  ["SET", KEY, "x"],
  ["GETDEL", KEY],
  ["EXPIRE", KEY, 1],
  ["PERSIST", KEY],
  ["RENAME", KEY, "shop:x"],
  ["COPY", "shop:x", KEY, "REPLACE"],
  ["MOVE", KEY, 1],
  ["RESTORE", KEY, 0, "x", "REPLACE"],
  ["EVAL", "return redis.call('DEL', KEYS[1])", 1, KEY],
  ["EVAL", `return redis.call('DEL', '${KEY}')`, 0],
  ["FLUSHDB"],
  ["FLUSHALL"],
  ["SWAPDB", 0, 1],
  ["CONFIG", "SET", "maxmemory", "1"],
  ["ACL", "SETUSER", "shop", "allkeys"],
  ["MONITOR"],
  ["GET", KEY],
  ["DUMP", KEY],
  ["SORT", "shop:list", "BY", "nosort", "GET", KEY],
  ["PUBLISH", "holdfast:1:inbox:x", "x"],
  ["SUBSCRIBE", "holdfast:1:inbox:x"],
  ["PSUBSCRIBE", "*"],
];

Deno.test("a user with the rights of the page about safety can do no harm to a lock", async () => {
  const [, rules = ""] = /^ACL SETUSER shop (.+)$/m.exec(PAGE)!;
  await using server = await startRedis();
  await server.command("ACL", "SETUSER", "shop", ...rules.replace("PASSWORD", "s").split(" "));
  const { client, close } = await openRedisClient("node-redis", server.url);
  const locks = new RedisLock(client, { ttlMs: LONG_TTL_MS });
  using shop = await connectResp(`redis://shop:s@${server.hostname}:${server.port}`);
  const lease = await locks.acquire("n");
  const second = locks.acquire("n");
  const owner = await server.command("GET", KEY);
  for (const command of HARM) {
    const { message } = await assertRejects(() => shop.command(...command), Error);
    assert(/NOPERM|No permissions|can't (?:access|run)/.test(message), `${command}: ${message}`);
  }
  assertEquals(await server.command("GET", KEY), owner);
  await lease.renew();
  // It can do its own work.
  assertEquals(await shop.command("SET", "shop:x", "1"), "OK");
  assertEquals(await shop.command("EVAL", "return redis.call('GET', KEYS[1])", 1, "shop:x"), "1");
  assertEquals(await shop.command("PUBLISH", "shop:news", "x"), 0);
  await lease.release();
  await (await second).release();
  await locks[Symbol.asyncDispose]();
  await close();
});
