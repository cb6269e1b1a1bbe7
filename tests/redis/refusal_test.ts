/**
 * A call learns from its own ask why it is refused or waits. `query()` lists a bounded number of waiters.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import type { LockHolder, WaitInfo } from "../../mod.ts";
import { makeOwnerId } from "../../core/contract/options.ts";
import { RedisLock } from "../../redis/mod.ts";
import { ownerValue } from "../../redis/protocol/keys.ts";
import { HELD } from "../../redis/protocol/wire.ts";
import { settle } from "../../testing/core/fake_clock.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { play, type Stage, TTL_MS } from "../../testing/redis/race_stage.ts";
import { ScriptedClient } from "../../testing/redis/scripted_client.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

/** Makes `count` calls of `other` wait behind a lease of its own. */
async function crowd({ other, waiting }: Stage, count: number) {
  const held = await other.acquire("n");
  const waits = Array.from({ length: count }, () => other.acquire("n"));
  await waitUntil("all wait", async () => await waiting() === count);
  return {
    held,
    async [Symbol.asyncDispose]() {
      await held.release();
      for (const wait of waits) await (await within("it is served", wait)).release();
    },
  };
}

Deno.test("RedisLock.tryAcquire() calls onWait once before it returns null, with what its own ask has told", () =>
  play(async (stage) => {
    const { lock, gates } = stage;
    for (const count of [0, 3]) {
      await using _crowd = await crowd(stage, count);
      gates.sent.length = 0;
      gates.lateAsks = 0;
      const infos: WaitInfo[] = [];
      const onWait = (info: WaitInfo) => void infos.push(info);
      for (const call of [() => lock.tryAcquire("n", { onWait }), () => lock.tryAcquire("n")]) {
        assertEquals(await call(), null);
      }
      const [info] = infos;
      assertEquals(infos.length, 1);
      assertEquals(Object.keys(info!).sort(), ["remainingMs", "waiters"], "a try has no position");
      assertEquals(info!.waiters, count);
      assert(info!.remainingMs! > TTL_MS / 2 && info!.remainingMs! <= TTL_MS);
      const sent = gates.sent.filter(({ copy }) => copy[0] === "EVALSHA").map(({ script }) =>
        script
      );
      const most = 2 + gates.lateAsks;
      assert(sent.length <= most && sent.every((script) => script === "ask"), "no second command");
    }
  }));

Deno.test("RedisLock.tryAcquire() does not call onWait when it gets the lock, and rejects with the error that onWait throws", () =>
  play(async ({ lock, other }) => {
    const error = new Error("from onWait");
    const onWait = () => {
      throw error;
    };
    const lease = await lock.tryAcquire("n", { onWait });
    assert(lease !== null);
    assert(await other.tryAcquire("n", { onWait }).catch((thrown) => thrown) === error);
    assertEquals(await lease.release(), true);
  }));

Deno.test("RedisLock.tryAcquire() reports no remaining time of a holder without a TTL", () =>
  play(async ({ lock, server }) => {
    await server.command("SET", "lock:n", "foreign");
    const infos: WaitInfo[] = [];
    assertEquals(await lock.tryAcquire("n", { onWait: (info) => void infos.push(info) }), null);
    assertEquals(infos, [{ waiters: 0 }]);
    await server.command("DEL", "lock:n");
  }));

Deno.test("RedisLock.acquire() calls onWait when the position or the number of waiters has changed, and only then", () =>
  play(async (stage) => {
    const { lock, other, gates } = stage;
    const held = await other.acquire("n");
    const first = other.acquire("n");
    await waitUntil("the first waits", async () => await stage.waiting() === 1);
    const infos: WaitInfo[] = [];
    const waiting = lock.acquire("n", { onWait: (info) => void infos.push(info) });
    const asks = () => gates.sent.filter(({ script }) => script === "ask").length;
    await waitUntil("it has asked several times", () => asks() >= 4);
    assertEquals(infos.map(({ position, waiters }) => [position, waiters]), [[2, 2]]);
    assert(infos[0]!.remainingMs! > 0);
    const abort = new AbortController();
    const third = assertRejects(() => other.acquire("n", { signal: abort.signal }));
    await waitUntil("it learns of the third", () => infos.length === 2);
    assertEquals([infos[1]!.position, infos[1]!.waiters], [2, 3]);
    abort.abort();
    await third;
    await waitUntil("it learns of its end", () => infos.length === 3);
    assertEquals([infos[2]!.position, infos[2]!.waiters], [2, 2]);
    await held.release();
    await (await first).release();
    await (await waiting).release();
  }));

Deno.test("RedisLock.query() lists no more waiters than it is asked for, and counts all", () =>
  play(async (stage) => {
    const { lock } = stage;
    await using _crowd = await crowd(stage, 70);
    for (const [maxWaiters, listed] of [[0, 0], [1, 1], [10, 10], [64, 64], [1_000, 64]] as const) {
      const { waiters, waiterCount, holders } = await lock.query("n", { maxWaiters });
      assertEquals([waiters.length, waiterCount, holders.length], [listed, 70, 1]);
    }
    const { waiters, waiterCount } = await lock.query("n");
    assertEquals([waiters.length, waiterCount], [64, 70]);
    await assertRejects(() => lock.query("n", { maxWaiters: -1 }), RangeError);
    await assertRejects(() => lock.query("n", { maxWaiters: "1" as never }), TypeError);
  }));

Deno.test("RedisLock.query() costs the server a bounded number of commands", () =>
  play(async (stage) => {
    const { lock, server } = stage;
    await using _crowd = await crowd(stage, 64);
    await lock.query("n");
    const reads = async () => {
      const info = String(await server.command("INFO", "commandstats"));
      const calls = [
        ...info.matchAll(/^cmdstat_(?:hget|hmget|zrangebylex|zlexcount):calls=(\d+)/gm),
      ];
      return calls.reduce((sum, [, count]) => sum + Number(count), 0);
    };
    const before = await reads();
    await lock.query("n");
    assert(await reads() - before < 20, `${await reads() - before} commands`);
  }));

Deno.test("RedisLock.query() shows the token of a holder of this library only, if it is not lost, and the time of one that has a TTL", async () => {
  const client = new ScriptedClient();
  await using lock = new RedisLock(client, { disposeTimeoutMs: 0 });
  const mode = "exclusive";
  const ours = ownerValue("job-7");
  const labelled = ownerValue(makeOwnerId("billing"));
  const rows: [value: string, leftMs: number, token: string, holder: LockHolder][] = [
    [ours, 5, "1", { mode, fencingToken: 1n, remainingMs: 5 }],
    [ours, 0, "0", { mode, remainingMs: 0 }],
    [labelled, 5, "2", { mode, label: "billing", fencingToken: 2n, remainingMs: 5 }],
    ["of another library", -1, "1", { mode }],
  ];
  for (const [value, leftMs, token, holder] of rows) {
    const query = lock.query("n");
    await settle();
    client.take("n").answer([value, "", leftMs, token, 0, []]);
    assertEquals((await query).holders, [holder]);
  }
  const infos: WaitInfo[] = [];
  const taking = lock.tryAcquire("n", { onWait: (info) => void infos.push(info) });
  await settle();
  client.take("n").answer([HELD, Date.now(), 0, 3]);
  assertEquals([await taking, infos], [null, [{ waiters: 3, remainingMs: 0 }]]);
});
