/**
 * Commands that wait for a slot: for which node, and what is sent for several leaves of one value.
 */
import { assertEquals } from "@std/assert";
import { Background } from "../../../core/lease/lifetime.ts";
import type { RedisClient } from "../../../redis/client.ts";
import { MAX_UNANSWERED } from "../../../redis/protocol/command_window.ts";
import { RedisCommands } from "../../../redis/protocol/commands.ts";
import { lockKeys, slotOf } from "../../../redis/protocol/keys.ts";
import { LEAVE } from "../../../redis/protocol/scripts.ts";
import { DONE, GONE, NOTIFIED, SEARCHING } from "../../../redis/protocol/wire.ts";
import { FINISHED } from "../../../testing/redis/wire_names.ts";
import { FakeClock, settle } from "../../../testing/core/fake_clock.ts";

/** An hour in ms: no time-out of these tests passes. */
const NEVER_MS = 3_600_000;
const KEYS = lockKeys("lock:", "n");
/** The position of the owner value among the arguments of a script; those of a leave follow. */
const FIRST_ARGUMENT = 6;
const FREE_LOCK = [null, null, -2, 0, 0, []];

/** Commands on a client that keeps each one until the test answers it. */
function open(nodeOf?: (slot: number) => string) {
  const leaves: { readonly args: string[]; answer(reply: unknown): void }[] = [];
  const others: ((reply: unknown) => void)[] = [];
  const client = {
    send(_command: string, args: string[]) {
      const { promise, resolve } = Promise.withResolvers<unknown>();
      if (args[0] !== LEAVE.sha1) others.push(resolve);
      else leaves.push({ args: args.slice(FIRST_ARGUMENT), answer: resolve });
      return promise;
    },
    epoch: 1,
    cluster: nodeOf !== undefined,
    ...(nodeOf === undefined ? {} : { nodeOf }),
  };
  const limits = { commandTimeoutMs: NEVER_MS, unavailableAfterMs: NEVER_MS };
  const background = new Background();
  const options = { ...limits, clock: new FakeClock(), handoff: true, background, warn: () => {} };
  const commands = new RedisCommands(client, options);
  /** Queries of other locks take the slots, or wait for them. */
  const query = (count: number) => {
    for (let i = 0; i < count; i++) commands.query(lockKeys("lock:", `other-${i}`), 0);
  };
  const answerQuery = async () => {
    others.shift()!(FREE_LOCK);
    await settle();
  };
  const answerAll = async (progress = (_leave: (typeof leaves)[number]) => FINISHED) => {
    while (others.length > 0) {
      for (const leave of leaves) leave.answer([GONE, NOTIFIED, progress(leave)]);
      await answerQuery();
    }
  };
  return { commands, background, leaves, query, answerAll };
}

Deno.test("RedisCommands sends a command to a node while as many as may be are unanswered by another", () => {
  const slot = slotOf(KEYS.lock);
  const { commands, leaves, query } = open((other) => other === slot ? "a" : "b");
  query(MAX_UNANSWERED + 1);
  commands.leave(KEYS, "v", 0, false);
  assertEquals(leaves.length, 1);
});

for (const ahead of [0, 1]) {
  Deno.test(`RedisCommands.leave() is sent with its own tombstone when an earlier leave still searches, with ${ahead} commands ahead`, async () => {
    const { commands, background, leaves, query, answerAll } = open();
    const first = commands.leave(KEYS, "v", 0, false);
    query(MAX_UNANSWERED - 1 + ahead);
    const second = commands.leave(KEYS, "v", 2_000, false);
    leaves[0]!.answer([DONE, NOTIFIED, SEARCHING]);
    assertEquals((await first).answer.state, "released");
    let isIdle = false;
    const idle = background.idle().then(() => isIdle = true);
    await settle();
    assertEquals(isIdle, false, "disposal waits for the end of the search");
    await answerAll();
    await idle;
    assertEquals((await second).answer.state, "gone");
    assertEquals(leaves.map(({ args }) => args), [
      ["v", "0", "handoff"],
      ["v", "2000", "handoff"],
      ["v", "0", "handoff"], // the search goes on
    ]);
  });
}

Deno.test("RedisCommands.leave() goes on with a search that waits for a slot, and later leaves are sent as they are", async () => {
  const { commands, leaves, query, answerAll } = open();
  const first = commands.leave(KEYS, "v", 0, false);
  query(MAX_UNANSWERED);
  leaves[0]!.answer([DONE, NOTIFIED, SEARCHING]);
  await settle();
  const second = commands.leave(KEYS, "v", 2_000, true);
  await answerAll();
  assertEquals((await first).answer.state, "released");
  await second;
  assertEquals(leaves.slice(1).map(({ args }) => args), [
    ["v", "0", "handoff"],
    ["v", "2000", "handoff", "keep"],
  ]);
});

/** Commands on a client whose replies the test gives in the order in which the commands were sent. */
function openRaw(more: Pick<RedisClient, "reset"> = {}) {
  const sent: string[] = [];
  const replies: PromiseWithResolvers<unknown>[] = [];
  const client: RedisClient = {
    send(command) {
      sent.push(command);
      const reply = Promise.withResolvers<unknown>();
      replies.push(reply);
      return reply.promise;
    },
    epoch: 1,
    cluster: false,
    ...more,
  };
  const told: string[] = [];
  const clock = new FakeClock();
  const commands = new RedisCommands(client, {
    ...{ clock, commandTimeoutMs: 1_000, unavailableAfterMs: NEVER_MS, handoff: true },
    ...{ background: new Background(), warn: (text) => void told.push(text) },
  });
  return { client, clock, commands, sent, replies, told };
}

for (const isResettable of [true, false]) {
  Deno.test(
    `RedisCommands ${
      isResettable ? "resets a client" : "sets no timer for a client without reset()"
    } when a script, its source or a SCAN is not answered in time`,
    async () => {
      let resets = 0;
      const { client, clock, commands, replies } = openRaw(
        isResettable ? { reset: () => void resets++ } : {},
      );
      const once = isResettable ? 1 : 0;
      /** How many resets the last ms of a time-out makes. */
      const passes = async () => {
        assertEquals(clock.timers, once);
        await clock.pass(999);
        const before = resets;
        await clock.pass(1);
        return resets - before;
      };
      const query = commands.query(KEYS, 0);
      assertEquals([await passes(), resets], [once, once]);
      replies[0]!.reject(new Error("NOSCRIPT No matching script"));
      await settle();
      assertEquals([await passes(), resets], [once, 2 * once]);
      replies[1]!.resolve(FREE_LOCK);
      await query;
      const scan = commands.scan(client, "0", "lock:*");
      assertEquals([await passes(), resets], [once, 3 * once]);
      replies[2]!.resolve(["0", []]);
      assertEquals(await scan, { cursor: "0", keys: [] });
      const answered = commands.query(KEYS, 0);
      replies[3]!.resolve(FREE_LOCK);
      await answered;
      assertEquals(clock.timers, 0);
    },
  );
}

Deno.test("RedisCommands sends the source of a script only if the server does not know it, and takes a refusal for an answer", async () => {
  const { clock, commands, sent, replies } = openRaw();
  const calls = [1, 2, 3].map(() => commands.query(KEYS, 0).catch(() => null));
  const window = commands.windowOf(KEYS.lock);
  const startMs = clock.now();
  clock.block(10);
  replies[0]!.reject(new Error("NOPERM no right to the key"));
  await settle();
  assertEquals(window.silentSinceMs, startMs + 10);
  clock.block(10);
  replies[1]!.reject(new Error("The connection was lost"));
  await settle();
  assertEquals(window.silentSinceMs, startMs + 10, "that is no answer");
  assertEquals(sent, ["EVALSHA", "EVALSHA", "EVALSHA"]);
  replies[2]!.reject(new Error("NOSCRIPT No matching script"));
  await settle();
  assertEquals(sent.slice(3), ["EVAL"]);
  replies[3]!.resolve(FREE_LOCK);
  await Promise.all(calls);
  assertEquals(window.silentSinceMs, null, "each has freed its slot");
});

for (const isNotified of [true, false]) {
  const [warns, is] = isNotified ? ["does not warn", "is"] : ["warns", "cannot be"];
  Deno.test(`RedisCommands.leave() ${warns} when the waiter that its search finds ${is} notified`, async () => {
    const { commands, replies, told } = openRaw();
    const left = commands.leave(KEYS, "v", 0, false);
    replies[0]!.resolve([DONE, NOTIFIED, SEARCHING]);
    await left;
    await settle();
    replies[1]!.resolve([GONE, isNotified ? NOTIFIED : 0, FINISHED]);
    await settle();
    assertEquals([told.length, replies.length], [isNotified ? 0 : 1, 2]);
  });
}
