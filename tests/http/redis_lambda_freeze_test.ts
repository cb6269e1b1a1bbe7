import { assert, assertEquals } from "@std/assert";
import type { RedisClientName } from "../../testing/conformance/open_lock.ts";
import { lockKeys } from "../../redis/protocol/keys.ts";
import { queueLength } from "../../testing/redis/queue_reader.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import {
  type Instance,
  type LockForm,
  type LockPlace,
  startInstance,
  untilRenewed,
} from "../../testing/http/lambda_instances.ts";
import { CONDITION_BOUND_MS, RENEWED_TTL_MS, scaled } from "../../testing/time.ts";

const FORMS: readonly LockForm[] = ["shared", "factory"];

function placeOn(redis: RedisServer, client: RedisClientName = "node-redis"): LockPlace {
  return { strategy: "redis", client, url: redis.url, keyPrefix: "l:", ttlMs: RENEWED_TTL_MS };
}

function holderOf({ command }: RedisServer, key: string): Promise<unknown> {
  return command("GET", `l:${key}`);
}

/** Waits until Redis has dropped a lock whose holder is dead or frozen. */
async function ranOut(redis: RedisServer, key: string): Promise<void> {
  await waitUntil(`${key} ran out`, async () => await holderOf(redis, key) === null);
}

/** Starts an invocation whose handler holds the lock, and writes when its gate is opened. */
async function work(instance: Instance, key: string, id: string, timeoutMs = 60_000) {
  const options = { ttlMs: RENEWED_TTL_MS, waitMs: CONDITION_BOUND_MS };
  const reply = instance.invoke({ id, key, mode: "write", options }, timeoutMs);
  const { token, killedAtMs } = await instance.report(id, "entered");
  return { reply, token: BigInt(token!), killedAtMs: killedAtMs! };
}

Deno.test("lambdaLock() loses the lease, and fenced writes fail, when its instance was frozen in an invocation", async () => {
  await using redis = await startRedis();
  await Promise.all(FORMS.map(async (form) => {
    await using frozen = await startInstance(placeOn(redis), form);
    await using other = await startInstance(placeOn(redis), form);
    const first = await work(frozen, form, "first");
    frozen.kill("SIGSTOP");
    await frozen.open("first"); // the handler continues as soon as the process wakes
    await ranOut(redis, form);
    const second = await work(other, form, "second");
    assert(second.token > first.token);
    await other.open("second");
    assert((await second.reply).ok);
    const third = await work(other, form, "third");
    const holder = await holderOf(redis, form);
    frozen.kill("SIGCONT");
    const { throws, aborted } = await frozen.report("first", "left");
    assertEquals([throws, aborted], ["LeaseLostError", true]);
    await frozen.report("first", "refused");
    const { ok, value } = await first.reply;
    assertEquals([ok, value.reason, value.retryable], [false, "lease-lost", true]);
    assertEquals(await redis.command("GET", `value:${form}`), "second");
    assertEquals(
      await holderOf(redis, form),
      holder,
      "it does not release a lock that it does not hold",
    );
    await other.open("third");
    assert((await third.reply).ok);
    assertEquals(await redis.command("GET", `value:${form}`), "third");
    assert((await frozen.invoke({ key: form })).ok, "the instance can be used again");
    assertEquals([await frozen.finish(), await other.finish()], [0, 0]);
  }));
});

Deno.test("lambdaLock() works again when its instance was frozen between invocations and lost its connections", async () => {
  const clients = ["node-redis", "ioredis"] as const;
  await Promise.all(clients.flatMap((client) => {
    return FORMS.map(async (form) => {
      await using redis = await startRedis();
      await using frozen = await startInstance(placeOn(redis, client), form);
      await using other = await startInstance(placeOn(redis), form);
      const key = `${client} ${form}`;
      // This instance has waited, so it has subscribed.
      const before = await work(other, key, "before");
      const waits = frozen.invoke({ key, options: { waitMs: CONDITION_BOUND_MS } });
      await waitUntil("it waits", async () => {
        return await queueLength(redis.command, lockKeys("l:", key)) === 1;
      });
      await other.open("before");
      assert((await waits).ok && (await before.reply).ok);
      frozen.kill("SIGSTOP");
      await redis.command("CLIENT", "KILL", "TYPE", "pubsub");
      await redis.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
      const meanwhile = await work(other, key, "meanwhile");
      const queued = frozen.invoke({ key, options: { waitMs: CONDITION_BOUND_MS } });
      await untilRenewed(redis, `l:${key}`, 4); // longer than a TTL
      frozen.kill("SIGCONT");
      await waitUntil("it waits again", async () => {
        return await queueLength(redis.command, lockKeys("l:", key)) === 1;
      });
      await other.open("meanwhile");
      const { ok, value } = await queued;
      assert(ok && BigInt(value.token) > meanwhile.token);
      assert((await meanwhile.reply).ok);
      assertEquals(await holderOf(redis, key), null);
      assertEquals([await frozen.finish(), await other.finish()], [0, 0]);
    });
  }));
});

Deno.test("lambdaLock() lets the lock of a killed instance expire before its invocation would have timed out", async () => {
  await using redis = await startRedis();
  await Promise.all(FORMS.map(async (form) => {
    await using killed = await startInstance(placeOn(redis), form);
    await using other = await startInstance(placeOn(redis), form);
    const first = await work(killed, form, "first", scaled(8_000));
    const next = other.invoke({ key: form, options: { waitMs: CONDITION_BOUND_MS } });
    await untilRenewed(redis, `l:${form}`, 3);
    killed.kill("SIGKILL");
    const remainingMs = first.killedAtMs - Date.now();
    const leftMs = Number(await redis.command("PTTL", `l:${form}`));
    const isOver = leftMs === -2; // on a slow machine
    assert(
      isOver || leftMs > 0 && leftMs <= Math.min(remainingMs, RENEWED_TTL_MS),
      `${leftMs} of ${remainingMs} ms`,
    );
    const { ok, value } = await next;
    assert(ok && BigInt(value.token) > first.token);
  }));
});
