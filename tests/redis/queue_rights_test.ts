/**
 * Users without rights to Pub/Sub, and lock names with braces, for which a hash tag must be found.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { lockKeys } from "../../redis/protocol/keys.ts";
import { RedisLock } from "../../redis/mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { say } from "../../testing/processes/figures.ts";
import { explainOrder, traceOrder } from "../../testing/redis/order_trace.ts";
import { startFleet } from "../../testing/redis/waiter_fleet.ts";
import { nothingLeft, onlyFencesLeft, provenInboxes } from "../../testing/redis/traces.ts";
import { CONDITION_BOUND_MS, LONG_TTL_MS } from "../../testing/time.ts";

/** The soak runs the full figure. */
const GRANTS = Deno.env.get("HOLDFAST_SOAK") ? 200 : 4;
const CLAIM_MS = 3_000;

/** Makes a user with these rules. Returns the URL to log in with. */
async function urlOfUser(server: RedisServer, ...rules: string[]): Promise<string> {
  await server.command("ACL", "SETUSER", "u", "reset", "on", ">secret", "~*", ...rules);
  return `redis://u:secret@${server.hostname}:${server.port}`;
}

for (
  const [title, ...rules] of [
    ["channels", "+@all", "resetchannels"],
    ["Pub/Sub commands", "+@all", "-@pubsub", "allchannels"],
    ["PUBSUB", "+@all", "-pubsub", "allchannels"],
  ] as const
) {
  Deno.test(`RedisLock grants the lock in order when the user has no right to ${title}`, async () => {
    await using server = await startRedis();
    const url = await urlOfUser(server, ...rules);
    const warnings: string[] = [];
    {
      using trace = await traceOrder(server, "n");
      await using fleet = await startFleet({
        urls: [url, url],
        name: "n",
        waiters: 6,
        options: { ttlMs: LONG_TTL_MS, onWarning: (message) => warnings.push(message) },
      });
      const enough = () => fleet.grants.length >= GRANTS;
      await waitUntil("enough were granted", enough, CONDITION_BOUND_MS);
      await within("everybody is served", fleet.finish());
      assertEquals([fleet.overlaps, fleet.refusals], [0, 0]);
      say(`without ${title}: ${await explainOrder(trace, fleet.grants)}`);
    }
    const told = warnings.filter((warning) => warning.includes("subscribe"));
    assertEquals(told.length, title === "PUBSUB" ? 0 : 2, "one warning per instance");
    for (const warning of told) {
      assertMatch(warning, /"holdfast:1:inbox:\*", so waiters poll\. Check the user's ACL: NOPERM/);
    }
    // A grant may be made before its waiter knows that its inbox is mute. That is one more warning.
    assert(warnings.length <= 2 * told.length, warnings.join("\n"));
    await nothingLeft(server);
  });
}

Deno.test("RedisLock warns once when a release may not publish, and the next waiter finds its grant by polling", async () => {
  await using server = await startRedis();
  const muzzled = await openRedisClient(
    "node-redis",
    await urlOfUser(server, "+@all", "resetchannels"),
  );
  const free = await openRedisClient("node-redis", server.url);
  const warnings: string[] = [];
  {
    await using releaser = new RedisLock(muzzled.client, { onWarning: (w) => warnings.push(w) });
    await using waiter = new RedisLock(free.client);
    for (const name of ["a", "b"]) {
      const held = await releaser.acquire(name);
      const waiting = waiter.acquire(name);
      const { waiters } = lockKeys("lock:", name);
      await waitUntil("its inbox is proven", async () => {
        return (await provenInboxes(server.command, waiters)).length === 1;
      });
      await held.release();
      const lease = await within("it is found before the claim runs out", waiting, CLAIM_MS);
      await lease.release();
    }
    assertEquals(warnings, [
      `Redis refuses to publish to "holdfast:1:inbox:*", so waiters poll. Check the user's ACL`,
    ]);
  }
  await muzzled.close();
  await free.close();
  await nothingLeft(server);
});

Deno.test("RedisLock grants the lock in order when one instance can no longer subscribe", async () => {
  await using server = await startRedis();
  const url = await urlOfUser(server, "+@all", "allchannels");
  const client = await openRedisClient("node-redis", url);
  {
    await using lock = new RedisLock(client.client);
    await using fleet = await startFleet({ urls: [server.url], name: "n", waiters: 4, holdMs: 1 });
    const { waiters } = lockKeys("lock:", "n");
    await waitUntil("both inboxes are open, and the other one is proven", async () => {
      await (await lock.acquire("n")).release();
      const channels = await server.command("PUBSUB", "CHANNELS") as string[];
      return channels.length === 2 && (await provenInboxes(server.command, waiters)).length > 0;
    });
    // Ends its subscription, and refuses the next one.
    await server.command("ACL", "SETUSER", "u", "resetchannels");
    const soFar = fleet.grants.length;
    await (await within("it is served, too", lock.acquire("n"), CONDITION_BOUND_MS)).release();
    assert(fleet.grants.length > soFar, "the others go on");
    await within("everybody is served", fleet.finish());
    assertEquals(fleet.overlaps, 0);
  }
  await client.close();
  await nothingLeft(server);
});

Deno.test("RedisLock hands over locks whose names contain braces", async () => {
  await using server = await startRedis();
  for (const name of ["a}b", "{}", "{", "}", "}{", "a{}b", "{x}y", "{{x}}", "ü}\n 😀", "\0}"]) {
    using trace = await traceOrder(server, name);
    await using fleet = await startFleet({ urls: [server.url, server.url], name, waiters: 6 });
    await waitUntil("enough were granted", () => fleet.grants.length >= 30);
    await within("everybody is served", fleet.finish());
    assertEquals([fleet.overlaps, fleet.refusals], [0, 0]);
    await explainOrder(trace, fleet.grants);
    assert(fleet.grants.some(({ queuedUs }) => queuedUs !== null), "somebody waited");
  }
  await onlyFencesLeft(server, LONG_TTL_MS);
});
