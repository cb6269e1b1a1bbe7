/**
 * Events in the instants in which an ask gets its slot, is sent or is answered.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Lease } from "../../mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { MAX_UNANSWERED } from "../../redis/protocol/command_window.ts";
import { DONE, GONE, NOTIFIED, SEARCHING } from "../../redis/protocol/wire.ts";
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

Deno.test("RedisLock.query() that finds no slot is sent before anything else as soon as there is one", () =>
  play(async (lock, client) => {
    fill(lock, client);
    const query = lock.query("n");
    await settle();
    assertEquals(client.count("n"), 0);
    client.take("full").answer(denied());
    await settle();
    client.take("n").answer([null, null, -2, 0, 0, []]);
    assertEquals((await query).holders, []);
  }));

Deno.test("RedisLock.acquire() asks again at once when its first ask came too late, and after a pause when the next one did", () =>
  play(async (lock, client) => {
    const call = lock.acquire("n");
    client.take("n").answer(late());
    await settle();
    client.take("n").answer(late());
    await settle();
    assertEquals(client.count("n"), 0, "it pauses");
    await waitUntil("it asks again", () => client.count("n") === 1);
    client.take("n").answer([SEARCHING, Date.now()]);
    await settle();
    client.take("n").answer(late()); // the first one since another answer
    await settle();
    client.take("n").answer(granted(1));
    assert((await call).isHeld);
  }));

Deno.test("RedisLock.acquire() has no lease that counts when its grant is stolen in the instant in which it is answered", async () => {
  for (let count = 0; count < MAX_REACTIONS; count++) {
    await play(async (lock, client) => {
      const leases: Lease[] = [];
      lock.acquire("n").then((lease) => leases.push(lease), () => {});
      const [value] = client.unanswered[0]!.args;
      await queueUp(client);
      client.gap(); // messages may be lost, so it asks
      await settle();
      client.take("n").answer(granted(1));
      await reactions(count);
      client.publish(`stolen\n${value}\nlock:n`);
      await settle();
      assert(leases.every(({ isHeld }) => !isHeld), `after ${count} reactions`);
    });
  }
});

Deno.test("RedisLock.acquire() takes no answer to an ask during which its grant was stolen, also if messages may be lost then", () =>
  play(async (lock, client) => {
    let isOver = false;
    const call = lock.acquire("n").finally(() => isOver = true);
    const [value] = client.unanswered[0]!.args;
    await queueUp(client);
    client.gap();
    await settle();
    const ask = client.take("n");
    client.publish(`stolen\n${value}\nlock:n`);
    client.gap();
    ask.answer(granted(1));
    await settle();
    assertEquals(isOver, false);
    client.take("n").answer(granted(2));
    assertEquals((await atOnce("it is granted", call)).fencingToken, 2n);
  }));

Deno.test("RedisLock.acquire() asks no more when the lock is granted by the answer to an ask during which it became free, or by a message before a gap", async () => {
  for (const isAnswered of [true, false]) {
    await play(async (lock, client) => {
      const claimMs = 60_000;
      const call = lock.acquire("n", { ttlMs: claimMs });
      const [value] = client.unanswered[0]!.args;
      await queueUp(client);
      if (isAnswered) {
        client.gap();
        await settle();
        const ask = client.take("n");
        client.publish(`free\n${value}\nlock:n`);
        ask.answer(granted(1));
      } else {
        client.publish(`grant 1 ${Date.now()} ${claimMs}\n${value}\nlock:n`);
        client.gap();
      }
      await settle();
      assertEquals(client.count("n"), 0);
      assert((await atOnce("it is granted", call)).isHeld);
    });
  }
});

Deno.test("RedisLock leaves a lock of which only a message says that it was granted, to an aborted call whose asks all came too late", () =>
  play(async (lock, client) => {
    lock.acquire("m").catch(() => {}); // makes the instance listen; it is refused at the end
    client.take("m").answer(queued(1));
    await settle();
    const abort = new AbortController();
    const rejected = assertRejects(() => lock.acquire("n", { signal: abort.signal }));
    await settle();
    const ask = client.take("n");
    client.publish(`grant 1 ${Date.now()} 1\n${ask.args[0]}\nlock:n`); // too short for a lease
    await settle();
    const again = client.take("n");
    abort.abort();
    await rejected;
    for (const { answer } of [ask, again]) answer(late());
    await settle();
    assertEquals(client.take("n").script, "leave");
  }));

for (const [others, asks] of [[1, 0], [0, 1]] as const) {
  const does = asks === 0 ? "waits on" : "asks at once";
  Deno.test(`RedisLock.acquire() ${does} when another waiter of its instance is granted the lock and the server knows ${others} more`, () =>
    play(async (lock, client) => {
      const first = lock.acquire("n");
      await queueUp(client);
      lock.acquire("n").catch(() => {}); // it is refused, or disposed, at the end
      await settle();
      client.take("n").answer(queued(2));
      await settle();
      assertEquals(client.count("n"), 0);
      client.gap(); // the foremost one asks
      await settle();
      client.take("n").answer([...granted(1), others]);
      await first;
      await settle();
      assertEquals(client.count("n"), asks);
    }));
}

for (const [state, isReleased, asks] of [[DONE, true, 0], [GONE, false, 1]] as const) {
  const does = asks === 0 ? "waits on" : "asks at once";
  Deno.test(`RedisLock.acquire() ${does} when the release of its instance returns ${isReleased}`, () =>
    play(async (lock, client) => {
      const call = lock.acquire("n");
      client.take("n").answer(granted(1));
      const lease = await call;
      lock.acquire("n").catch(() => {}); // it is refused, or disposed, at the end
      await settle();
      await queueUp(client);
      const released = lease.release();
      await settle();
      client.take("n").answer([state, NOTIFIED, FINISHED]);
      assertEquals(await released, isReleased);
      await settle();
      assertEquals(client.count("n"), asks);
    }));
}

Deno.test("RedisLock.release() refuses asks for 2 s when the connection was lost after the only one was answered", () =>
  play(async (lock, client) => {
    const call = lock.acquire("n");
    client.take("n").answer(granted(1));
    const lease = await call;
    client.epoch++;
    const released = lease.release();
    await settle();
    const { script, args, answer } = client.take("n");
    assertEquals([script, args[1]], ["leave", "2000"]);
    answer([DONE, NOTIFIED, FINISHED]);
    assertEquals(await released, true);
  }));

Deno.test("RedisLock sends a clean-up that has failed once more after a pause, and not after its disposal", async () => {
  const client = new ScriptedClient();
  const lock = new RedisLock(client, { disposeTimeoutMs: 0 });
  const abort = new AbortController();
  const rejected = assertRejects(() => lock.acquire("n", { signal: abort.signal }));
  await settle();
  await queueUp(client);
  abort.abort();
  await rejected;
  await settle();
  const lose = () => {
    const { script, fail } = client.take("n");
    assertEquals(script, "leave");
    fail(new Error("The connection was lost"));
  };
  lose();
  await settle();
  assertEquals(client.count("n"), 0, "it pauses");
  await waitUntil("it is sent again", () => client.count("n") === 1);
  lose();
  await lock[Symbol.asyncDispose]();
  await settle();
  assertEquals(client.count("n"), 0);
});
