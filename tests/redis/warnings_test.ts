/**
 * A callback for warnings that fails.
 */
import { assertEquals } from "@std/assert";
import { RedisLock } from "../../redis/mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

const FAILURES: [string, () => void][] = [
  ["throws", () => {
    throw new Error("The user's callback throws");
  }],
  ["rejects", () => Promise.reject(new Error("The user's callback rejects"))],
];

for (const [verb, onWarning] of FAILURES) {
  Deno.test(`RedisLock grants and releases as usual when 'onWarning' ${verb}`, async () => {
    await using server = await startRedis();
    // Without rights to channels, both the subscription and the release give a warning.
    await server.command("ACL", "SETUSER", "u", "on", ">secret", "~*", "+@all", "resetchannels");
    const url = `redis://u:secret@${server.hostname}:${server.port}`;
    const { client, close } = await openRedisClient("node-redis", url);
    const other = await openRedisClient("node-redis", server.url); // whose inbox can be subscribed
    let warnings = 0;
    {
      const options = { onWarning: () => (warnings++, onWarning()) };
      await using a = new RedisLock(client, options);
      await using b = new RedisLock(client, options);
      await using c = new RedisLock(other.client);
      const lease = await a.acquire("n");
      let waits = 0;
      const onWait = () => void waits++;
      const waiters = [c.acquire("n", { onWait })];
      await waitUntil("one waits", () => waits > 0);
      waiters.push(b.acquire("n", { onWait }));
      await waitUntil("the other's inbox is mute", () => warnings === 1);
      assertEquals(await lease.release(), true);
      for (const waiter of waiters) {
        assertEquals(await (await within("the waiter is granted", waiter)).release(), true);
      }
    }
    assertEquals(warnings, 2);
    await close();
    await other.close();
  });
}
