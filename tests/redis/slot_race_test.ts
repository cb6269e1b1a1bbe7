/**
 * Events in the instants in which an ask gets its slot, is sent or is answered.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { RedisLock } from "../../redis/mod.ts";
import { MAX_UNANSWERED } from "../../redis/protocol/command_window.ts";
import { DONE, NOTIFIED } from "../../redis/protocol/wire.ts";
import { FINISHED } from "../../testing/redis/wire_names.ts";
import { settle } from "../../testing/core/fake_clock.ts";
import { atOnce } from "../../testing/redis/race_stage.ts";
import { block } from "../../testing/conformance/bounds.ts";
import {
  denied,
  granted,
  late,
  queued,
  ScriptedClient,
} from "../../testing/redis/scripted_client.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

/** More promise reactions than there are between the free slot and the ask. */
const MAX_REACTIONS = 12;

/** Runs a scene with a lock without a server. */
async function play(scene: (lock: RedisLock, client: ScriptedClient) => Promise<void>) {
  const client = new ScriptedClient();
  await using lock = new RedisLock(client, { disposeTimeoutMs: 0 });
  await scene(lock, client);
  await client.denyAll();
}

/** Makes the client have all commands that it may have. */
function fill(lock: RedisLock, client: ScriptedClient): void {
  for (let i = client.unanswered.length; i < MAX_UNANSWERED; i++) {
    lock.tryAcquire("full").catch(() => {});
  }
  assertEquals(client.unanswered.length, MAX_UNANSWERED);
}

async function reactions(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await null;
}

/** Each way to end a waiting call of `lock` for "n". */
const ENDS: Record<string, (lock: RedisLock, abort: AbortController) => void> = {
  "it is aborted": (_, abort) => abort.abort(),
  "its instance is disposed": (lock) => void lock[Symbol.asyncDispose](),
  "attach() is called": (lock) => void lock.attach("n", "job-7").catch(() => {}),
};

for (const [title, end] of Object.entries(ENDS)) {
  Deno.test(`RedisLock.acquire() rejects at once when ${title} in the instant in which its ask gets a slot`, async () => {
    for (let count = 0; count < MAX_REACTIONS; count++) {
      await play(async (lock, client) => {
        fill(lock, client);
        const abort = new AbortController();
        const call = lock.acquire("n", { ownerId: "job-7", signal: abort.signal });
        const rejected = assertRejects(() => call, Error);
        await settle();
        assertEquals(client.count("n"), 0);
        client.take("full").answer(denied());
        await reactions(count);
        end(lock, abort);
        await atOnce(`after ${count} reactions`, rejected);
      });
    }
  });
}

Deno.test("RedisLock gives the slot of an ask that is never sent to another one", async () => {
  for (let count = 0; count < MAX_REACTIONS; count++) {
    await play(async (lock, client) => {
      fill(lock, client);
      const abort = new AbortController();
      const rejected = assertRejects(() => lock.acquire("n", { signal: abort.signal }));
      await settle();
      client.take("full").answer(denied());
      await reactions(count);
      const wasSent = client.count("n") === 1;
      abort.abort();
      await atOnce("it ends", rejected);
      assertEquals(client.count("n"), wasSent ? 1 : 0, `after ${count} reactions`);
      if (wasSent) client.take("n").answer(denied());
      await settle();
      lock.tryAcquire("next").catch(() => {}); // it is refused at the end
      lock.tryAcquire("one too many").catch(() => {});
      assertEquals([client.count("next"), client.count("one too many")], [1, 0]);
    });
  }
});

/** Answers the asks of a new call for "n": it waits in the queue. */
async function queueUp(client: ScriptedClient): Promise<void> {
  client.take("n").answer(queued(1));
  await settle(); // it subscribes, and asks again
  client.take("n").answer(queued(1));
  await settle();
  assertEquals(client.count("n"), 0);
}

Deno.test("RedisLock sends one ask when several are due before it has a slot", () =>
  play(async (lock, client) => {
    lock.acquire("n").catch(() => {}); // it is refused at the end
    await queueUp(client);
    fill(lock, client);
    client.gap();
    await settle();
    client.gap();
    client.take("full").answer(denied());
    await settle();
    client.take("n").answer(queued(1));
    await settle();
    assertEquals(client.count("n"), 0, "the ask was sent after both gaps");
  }));

Deno.test("RedisLock sends another ask when one is due while an ask is unanswered", () =>
  play(async (lock, client) => {
    const call = lock.acquire("n");
    await queueUp(client);
    client.gap();
    await settle();
    const ask = client.take("n");
    client.gap();
    await settle();
    assertEquals(client.count("n"), 0, "one ask at a time");
    ask.answer(queued(1));
    await settle();
    client.take("n").answer(granted(1));
    const lease = await atOnce("it is granted", call);
    assert(lease.isHeld);
  }));

for (
  const [text, isOtherConnection, tombstone] of [
    ["The connection was lost", true, "30000"],
    ["Command timed out", false, "30000"],
    ["OOM command not allowed", true, "30000"],
    ["OOM command not allowed", false, "0"],
  ] as const
) {
  const on = isOtherConnection ? "a lost" : "the same";
  Deno.test(`RedisLock.release() refuses asks for ${tombstone} ms after the first one, without a last moment, failed with "${text}" on ${on} connection`, () =>
    play(async (lock, client) => {
      const call = lock.acquire("n");
      await settle();
      if (isOtherConnection) client.epoch++; // the first ask of an instance: the server's clock is unknown
      client.take("n").fail(new Error(text));
      await waitUntil("it asks again", () => client.count("n") === 1);
      client.take("n").answer(granted(7));
      const released = (await call).release();
      await settle();
      const { script, args, answer } = client.take("n");
      assertEquals([script, args[1]], ["leave", tombstone]);
      answer([DONE, NOTIFIED, FINISHED]);
      assertEquals(await released, true);
    }));
}

for (
  const [when, agoMs, asks] of [["most", 10_000, 0], ["less than half", 32_000, 1]] as const
) {
  const again = asks === 0 ? "no more" : "once more";
  Deno.test(`RedisLock.acquire() asks ${again} when ${when} of the claim is left that its grant message names`, () =>
    play(async (lock, client) => {
      const claimMs = 60_000;
      const call = lock.acquire("n", { ttlMs: claimMs });
      const [value] = client.unanswered[0]!.args;
      await queueUp(client);
      client.publish(`grant 1 ${Date.now() - agoMs} ${claimMs}\n${value}\nlock:n`);
      await settle();
      assertEquals(client.count("n"), asks);
      if (asks > 0) client.take("n").answer(granted(1, claimMs));
      assert((await call).isHeld);
    }));
}

// Both asks are under way: the call has looked at a grant, and asks whether that still counts.
Deno.test("RedisLock.acquire() counts a lease from its ask although an earlier ask came too late meanwhile", () =>
  play(async (lock, client) => {
    const call = lock.acquire("n");
    await settle();
    client.take("n").answer(queued(1));
    await settle();
    client.gap(); // messages may be lost, so it asks
    await settle();
    const earlier = client.take("n");
    const [value] = earlier.args;
    client.publish(`grant 1 ${Date.now()} 1\n${value}\nlock:n`); // too short for a lease
    await settle();
    const ask = client.take("n");
    const sentMs = performance.now(); // at the latest
    block(50);
    earlier.answer(late());
    await settle();
    const validMs = 1_000;
    ask.answer(granted(1, validMs));
    const { remainingMs } = await call;
    assert(performance.now() + remainingMs < sentMs + validMs, "it is believed for too long");
  }));

for (const title of ["it is aborted", "attach() is called"]) {
  Deno.test(`RedisLock gives the slot of an ask that came too late to another one when ${title} in that instant`, async () => {
    for (let count = 0; count < MAX_REACTIONS; count++) {
      await play(async (lock, client) => {
        const abort = new AbortController();
        const call = lock.acquire("n", { ownerId: "job-7", signal: abort.signal });
        const rejected = assertRejects(() => call, Error);
        await settle();
        fill(lock, client);
        const next = lock.tryAcquire("next");
        await settle();
        assertEquals(client.count("next"), 0);
        client.take("n").answer(late());
        await reactions(count);
        ENDS[title]!(lock, abort);
        await atOnce(`after ${count} reactions`, rejected);
        await settle();
        if (client.count("n") > 0) client.take("n").answer(late()); // sent again before the end
        await settle();
        assertEquals(client.count("next"), 1);
        client.take("next").answer(denied());
        assertEquals(await next, null);
      });
    }
  });
}
