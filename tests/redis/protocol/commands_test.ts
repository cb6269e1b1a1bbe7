/**
 * Commands that wait for a slot: for which node, and what is sent for several leaves of one value.
 */
import { assertEquals } from "@std/assert";
import { Background } from "../../../core/lease/lifetime.ts";
import { Warnings } from "../../../core/contract/warnings.ts";
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
  const warnings = new Warnings(() => {});
  const background = new Background();
  const options = { ...limits, clock: new FakeClock(), handoff: true, background, warnings };
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
