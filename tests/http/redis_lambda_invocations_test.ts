import { assert, assertEquals } from "@std/assert";
import { lockKeys } from "../../redis/protocol/keys.ts";
import { queueLength } from "../../testing/redis/queue_reader.ts";
import { type Shown, untilShown, watchStalls } from "../../testing/processes/stalls.ts";
import { keysLeft } from "../../testing/redis/residue.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { LONG_TTL_MS, RENEWED_TTL_MS, scaled } from "../../testing/time.ts";
import {
  type Instance,
  type InstanceEvent,
  type LockForm,
  type LockPlace,
  type Reply,
  startInstance,
  untilRenewed,
} from "../../testing/http/lambda_instances.ts";
import { CONDITION_BOUND_MS } from "../../testing/time.ts";

const FORMS: readonly LockForm[] = ["shared", "factory"];
const PREFIX = "lambda:";
const SQS = { Records: [{ eventSource: "aws:sqs", messageId: "1", body: "{}" }] };
const EVENT_BRIDGE = { "source": "aws.events", "detail-type": "Scheduled Event", "detail": {} };
const GATEWAY_1 = { version: "1.0", httpMethod: "PUT", requestContext: { stage: "test" } };
const GATEWAY_2 = { version: "2.0", requestContext: { http: { method: "PUT" } } };
const ELB = { targetGroupArn: "arn:aws:elasticloadbalancing:…" };
const BALANCER = { httpMethod: "PUT", requestContext: { elb: ELB }, headers: {} };
const BALANCER_LISTS = { httpMethod: "PUT", requestContext: { elb: ELB }, multiValueHeaders: {} };

/** Starts a Redis server, and instances of a function that is locked on it. */
async function open(count: number, more: Partial<LockPlace & { strategy: "redis" }> = {}) {
  await using stack = new AsyncDisposableStack();
  const redis = stack.use(await startRedis());
  const place: LockPlace = {
    ...{
      strategy: "redis",
      client: "node-redis",
      url: redis.url,
      keyPrefix: PREFIX,
      ttlMs: RENEWED_TTL_MS,
    },
    ...more,
  };
  const instances: Instance[] = [];
  while (instances.length < count) instances.push(stack.use(await startInstance(place, "shared")));
  const owned = stack.move();
  return { redis, instances, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Starts an invocation whose handler holds the lock until its gate is opened. */
async function hold(instance: Instance, key: string, form: LockForm, timeoutMs = 60_000) {
  const id = `holder of ${key}`;
  const options = { ttlMs: RENEWED_TTL_MS };
  const reply = instance.invoke({ id, key, mode: "gate", form, options }, timeoutMs);
  const { token } = await instance.report(id, "entered");
  return { id, reply, token: BigInt(token!), end: () => (instance.open(id), reply) };
}

async function isFree({ command }: RedisServer, key: string): Promise<boolean> {
  return await command("EXISTS", PREFIX + key) === 0;
}

Deno.test("lambdaLock() runs one invocation at a time over three instances on Redis", async () => {
  await using stage = await open(3);
  const invoke = async (instance: Instance, form: LockForm) => {
    const replies: Reply[] = [];
    for (let i = 0; i < 15; i++) {
      replies.push(
        await instance.invoke({ key: "k", form, options: { waitMs: CONDITION_BOUND_MS } }),
      );
    }
    return replies;
  };
  for (const form of FORMS) {
    const all = await Promise.all(stage.instances.map((instance) => invoke(instance, form)));
    const held = all.flat().map(({ value }) => ({ token: BigInt(value.token), held: value.held }));
    held.sort((a, b) => a.held[0] - b.held[0]);
    assertEquals(held.length, 45);
    for (const [i, { token, held: [startUs] }] of held.entries()) {
      if (i === 0) continue;
      assert(held[i - 1]!.held[1] <= startUs, "the invocation before it was over");
      assert(held[i - 1]!.token < token, "tokens grow");
    }
  }
  for (const instance of stage.instances) assertEquals(await instance.finish(), 0);
  assertEquals(await keysLeft(stage.redis.command), []);
});

Deno.test("lambdaLock() answers with busyStatus to an HTTP event, and rejects others as retryable, when the lock is busy", async () => {
  await using stage = await open(2);
  const [first, second] = stage.instances as [Instance, Instance];
  const holder = await hold(first, "k", "factory");
  for (const event of [GATEWAY_1, GATEWAY_2, BALANCER, BALANCER_LISTS]) {
    for (const busyStatus of [409, 423, 429, 503] as const) {
      const options = { busyStatus };
      const { ok, value } = await second.invoke({ ...event, key: "k", options, form: "factory" });
      assert(ok);
      assertEquals([value.statusCode, value.isBase64Encoded], [busyStatus, false]);
      assertEquals(value.headers["content-type"], "application/problem+json");
      const retryAfter = value.headers["retry-after"];
      assert(/^\d+$/.test(retryAfter) && Number(retryAfter) * 1_000 < 2 * RENEWED_TTL_MS + 1_000);
      assertEquals(JSON.parse(value.body).type, "urn:holdfast:problem:busy");
      const lists = event === BALANCER_LISTS ? [retryAfter] : undefined;
      assertEquals(value.multiValueHeaders?.["retry-after"], lists);
    }
  }
  for (const event of [SQS, EVENT_BRIDGE]) {
    const { ok, value } = await second.invoke({ ...event, key: "k" });
    assertEquals([ok, value.errorType], [false, "RetryableLockError"]);
    assertEquals([value.retryable, value.reason, value.lockName], [true, "busy", "k"]);
    assert(value.retryAfterMs > 0 && value.retryAfterMs <= 1.5 * RENEWED_TTL_MS);
  }
  assertEquals((await second.invoke({ key: "another" })).ok, true);
  assertEquals((await second.invoke({})).value.token, null, "without a key there is no lock");
  assert((await holder.end()).ok);
});

Deno.test("lambdaLock() ends a wait in time, and grants a TTL that fits into the invocation", async () => {
  await Promise.all(FORMS.map(async (form) => {
    await using stage = await open(2);
    const [first, second] = stage.instances as [Instance, Instance];
    const { command } = stage.redis;
    await second.invoke({ key: "warm", form });
    const holder = await hold(first, form, form);
    const waiting = { waitMs: LONG_TTL_MS, ttlMs: LONG_TTL_MS };
    const startMs = Date.now();
    const event = { ...GATEWAY_2, key: form, form };
    const refused = await second.invoke(
      { ...event, options: { ...waiting, marginMs: scaled(5_000) } },
      scaled(6_000),
    );
    assertEquals(refused.value.statusCode, 409);
    assert(Date.now() - startMs < scaled(6_000), "it is answered in time");
    const id = `waiter ${form}`;
    const options = { ...waiting, marginMs: 200 };
    const granted = second.invoke({ ...event, id, options, mode: "gate" }, 30_000);
    await waitUntil("it waits", async () => {
      return await queueLength(command, lockKeys(PREFIX, form)) === 1;
    });
    // Longer than the margin: a TTL that fitted when the wait began does not fit now.
    await untilRenewed(stage.redis, PREFIX + form, 2);
    await holder.end();
    const { value } = await Promise.race([
      granted,
      second.report(id, "entered").then(() => ({ value: null })),
    ]);
    assertEquals(value, null);
    const { killedAtMs } = await second.report(id, "entered");
    const remainingMs = killedAtMs! - Date.now();
    const leftMs = Number(await command("PTTL", PREFIX + form));
    assert(leftMs > 0 && leftMs <= remainingMs, `${leftMs} ms of ${remainingMs}`);
    await second.open(id);
    assert((await granted).ok);
  }));
});

/** Watches the TTL of a lock until the lock is free. Returns the number of renewals. */
async function followTtl({ command }: RedisServer, key: string, killedAtMs: number) {
  let renewals = 0;
  for (let beforeMs = 0;;) {
    const remainingMs = killedAtMs - Date.now();
    const leftMs = Number(await command("PTTL", PREFIX + key));
    if (leftMs === -2) return renewals;
    const text = `a TTL of ${leftMs} ms with ${remainingMs} ms remaining`;
    assert(leftMs >= 0 && leftMs <= remainingMs, text); // -1: it never expires
    if (leftMs > beforeMs) renewals++;
    beforeMs = leftMs;
    await pause(5);
  }
}

async function renewToTheEnd(): Promise<Shown> {
  const ttlMs = scaled(1_500);
  await using stage = await open(2, { ttlMs });
  using stalls = watchStalls();
  const shown = await Promise.all(FORMS.map(async (form, i): Promise<Shown> => {
    const instance = stage.instances[i]!;
    await instance.invoke({ key: `warm ${form}`, form });
    const options = { ttlMs, marginMs: scaled(2_000) };
    const id = `deaf ${form}`; // its handler ignores the loss
    const reply = instance.invoke(
      { ...SQS, id, key: form, form, mode: "gate", options },
      scaled(5_000),
    );
    const { killedAtMs } = await instance.report(id, "entered");
    const renewals = await followTtl(stage.redis, form, killedAtMs!);
    const { reason } = await instance.report(id, "aborted");
    if (reason !== "max-hold" && stalls.longestMs > ttlMs / 2) return "stalled";
    assertEquals(reason, "max-hold");
    assert(renewals > 2, `${renewals} renewals`); // beyond one TTL
    const { ok, value } = await reply;
    assert(Date.now() < killedAtMs!, "it is answered in time");
    assertEquals([ok, value.errorType, value.reason], [false, "RetryableLockError", "lease-lost"]);
    assertEquals(value.cause, "LeaseLostError");
    assertEquals((await instance.invoke({ key: form, form })).ok, true, "the lock is free");
    await instance.open(id);
    const { throws, aborted } = await instance.report(id, "left");
    assertEquals([throws, aborted], ["LeaseLostError", true]);
    return "shown";
  }));
  return shown.includes("stalled") ? "stalled" : "shown";
}

Deno.test("lambdaLock() renews the lock until the invocation's time is over, and never beyond", () =>
  untilShown(renewToTheEnd));

Deno.test("lambdaLock() refuses an invocation that has too little time left for the lock", async () => {
  await using stage = await open(1, { ttlMs: 5_000 });
  const [instance] = stage.instances as [Instance];
  const isRefused = async (event: Partial<InstanceEvent>, timeoutMs: number) => {
    const { value } = await instance.invoke({ ...GATEWAY_1, key: "k", ...event }, timeoutMs);
    assertEquals(value.statusCode, 503);
    assertEquals(JSON.parse(value.body).type, "urn:holdfast:problem:too-little-time");
    const thrown = await instance.invoke({ ...SQS, key: "k", ...event }, timeoutMs);
    assertEquals([thrown.ok, thrown.value.reason], [false, "too-little-time"]);
    assert(await isFree(stage.redis, "k"));
  };
  await isRefused({ form: "shared" }, 4_000); // less than the lock's TTL
  await isRefused({ form: "shared", options: { marginMs: 1_000 } }, 1_000);
  await isRefused({ form: "factory", options: { marginMs: 1_000 } }, 1_005);
  assert((await instance.invoke({ key: "k", form: "shared" }, 20_000)).ok);
  assert((await instance.invoke({ key: "k", form: "factory" }, 4_000)).ok);
});

Deno.test("lambdaLock() frees the lock before it answers, and leaves no subscription or key behind", async () => {
  await using stage = await open(1);
  const [instance] = stage.instances as [Instance];
  const { redis } = stage;
  for (const form of FORMS) {
    for (let i = 0; i < 20; i++) {
      assert((await instance.invoke({ key: "k", form })).ok);
      assert(await isFree(redis, "k"));
    }
    const { ok, value } = await instance.invoke({ ...GATEWAY_1, key: "k", form, mode: "throw" });
    const { errorType, errorMessage } = value;
    assertEquals([ok, errorType, errorMessage], [false, "RangeError", "The handler has failed"]);
    assert(await isFree(redis, "k"));
  }
  await using other = await startInstance(
    {
      strategy: "redis",
      client: "ioredis",
      url: redis.url,
      keyPrefix: PREFIX,
      ttlMs: RENEWED_TTL_MS,
    },
    "factory",
  );
  const holder = await hold(other, "k", "factory");
  const waiting = instance.invoke({
    key: "k",
    form: "factory",
    options: { waitMs: CONDITION_BOUND_MS },
  });
  await waitUntil(
    "it waits",
    async () => await redis.command("PUBSUB", "CHANNELS").then(String) !== "",
  );
  await holder.end();
  assert((await waiting).ok);
  assertEquals(await redis.command("PUBSUB", "CHANNELS"), [], "no subscription stays open");
  assertEquals([await instance.finish(), await other.finish()], [0, 0]);
  assertEquals(await keysLeft(redis.command), []);
});

Deno.test("lambdaLock() answers 503 in time when Redis does not answer", async () => {
  await Promise.all([true, false].map(async (isPaused) => {
    await using stage = await open(1, { unavailableAfterMs: scaled(600) });
    const [instance] = stage.instances as [Instance];
    await using patient = await startInstance({
      ...{ strategy: "redis", client: "node-redis", url: stage.redis.url },
      ...{ keyPrefix: PREFIX, ttlMs: RENEWED_TTL_MS, unavailableAfterMs: 60_000 },
    }, "factory");
    assert((await instance.invoke({ key: "k" })).ok && (await patient.invoke({ key: "k" })).ok);
    await (isPaused ? stage.redis.pause() : stage.redis.kill());
    const options = { marginMs: scaled(3_000) };
    for (const form of FORMS) {
      await Promise.all([instance, patient].map(async (each) => {
        const event = { ...GATEWAY_2, id: form, key: "k", form, options };
        const startMs = Date.now();
        const { value } = await each.invoke(event, scaled(4_200));
        assert(Date.now() - startMs < scaled(4_200));
        assertEquals(value.statusCode, 503);
        assertEquals(JSON.parse(value.body).type, "urn:holdfast:problem:unavailable");
        assertEquals(each.reports(form), [], "the handler was not called");
      }));
    }
    const thrown = await instance.invoke({ ...SQS, key: "k", form: "factory" });
    assertEquals([thrown.ok, thrown.value.reason], [false, "unavailable"]);
    assertEquals(thrown.value.cause, "LockUnavailableError");
    const proceeding = { key: "k", options: { onUnavailable: "proceed" } } as const;
    assertEquals((await instance.invoke(proceeding)).value.token, null);
    if (isPaused) await stage.redis.resume();
  }));
});
