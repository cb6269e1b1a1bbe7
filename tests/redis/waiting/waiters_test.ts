/** For whom messages are, and what the waiting calls of a lock have in common. */
import { assertEquals } from "@std/assert";
import { LeaseEngine } from "../../../core/lease/lease_engine.ts";
import { HeldLeases } from "../../../redis/held_leases.ts";
import { RedisCommands } from "../../../redis/protocol/commands.ts";
import { lockKeys, ownerValue } from "../../../redis/protocol/keys.ts";
import type { InboxMessage } from "../../../redis/protocol/messages.ts";
import type { Queued } from "../../../redis/protocol/wire.ts";
import type { Waiter } from "../../../redis/waiting/waiting_room.ts";
import { Waiters } from "../../../redis/waiting/waiters.ts";
import { FakeClock } from "../../../testing/core/fake_clock.ts";
import { openLease } from "../../../testing/core/fake_service.ts";
import { ScriptedClient } from "../../../testing/redis/scripted_client.ts";

const ANSWER: Queued = {
  state: "queued",
  ...{ serverMs: 0, leftMs: 60_000, ticket: 1, position: 9, waiters: 9 },
  ...{ inboxWaiters: 9, holderIsOurs: true, ownHolder: null },
};

function open() {
  const client = new ScriptedClient();
  const clock = new FakeClock();
  const engine = new LeaseEngine("redis", clock);
  const { background } = engine;
  const warn = () => {};
  const commands = new RedisCommands(client, {
    ...{ clock, background, warn, handoff: true },
    ...{ commandTimeoutMs: 1_000, unavailableAfterMs: 5_000 },
  });
  const held = new HeldLeases(client);
  const waiters = new Waiters(commands, engine, held, warn, 10_000);
  /** What the waiters are told. */
  const log: string[] = [];
  const add = (name: string, value: string): Waiter => {
    const waiter: Waiter = {
      ...{ keys: lockKeys("lock:", name), value, ticket: 1 },
      leaseMode: "exclusive",
      onMessage: ({ kind }) => void log.push(`${name} ${kind}`),
      onAskDue: () => void log.push(`${name} asks`),
      onOutage: () => void log.push(`${name} outage`),
      onAborted: () => void log.push(`${name} aborted`),
    };
    waiters.add(waiter);
    return waiter;
  };
  /** Passes a message about a lock. Returns the scripts that are sent then. */
  const tell = (kind: InboxMessage["kind"], name: string, value: string) => {
    const place = { lockKey: `lock:${name}`, value };
    waiters.onInboxMessage(
      kind === "grant"
        ? { kind, ...place, serverMs: 0, claimMs: 3_000, fencingToken: 8n }
        : { kind, ...place },
    );
    return client.unanswered.splice(0).map(({ script, args }) => [script, ...args]);
  };
  return { client, held, waiters, log, add, tell };
}

Deno.test("Waiters frees a lock that is granted to no call here, and keeps it if a call of its owner id asks for that lock", () => {
  const { waiters, log, add, tell } = open();
  const leave = (value: string) => ["leave", value, "2000", "handoff"];
  const [own, chosen] = [ownerValue("host", waiters.inbox.nonce), ownerValue("job-7")];
  assertEquals(tell("grant", "n", own), [leave(own)]);
  add("m", ownerValue("job-7"));
  add("n", ownerValue("job-8"));
  assertEquals(tell("grant", "n", chosen), [leave(chosen)]);
  add("n", ownerValue("job-7"));
  assertEquals(tell("grant", "n", chosen), [[...leave(chosen), "keep"]]);
  for (const kind of ["free", "stolen"] as const) assertEquals(tell(kind, "n", chosen), []);
  assertEquals(log, []);
  add("m", chosen);
  assertEquals(tell("grant", "n", chosen), [[...leave(chosen), "keep"]], "it waits for another");
  assertEquals(tell("grant", "m", chosen), []);
  assertEquals(log, ["m grant"]);
});

Deno.test("Waiters passes a message to the lease or the call that it names, though a call with the same owner value has ended", () => {
  const { held, waiters, log, add, tell } = open();
  const value = ownerValue("job-7");
  const { lease } = openLease({ ownerId: "job-7", fencingToken: 8n });
  held.add("lock:n", { value, leaseMode: "exclusive", onLaterGrant: () => {} }, lease);
  assertEquals([tell("grant", "n", value), lease.isHeld], [[], true], "a copy of its grant");
  assertEquals([tell("stolen", "n", value), lease.isHeld], [[], false]);
  const [first, second] = [add("n", value), add("m", value)];
  waiters.remove(first);
  tell("free", "m", value);
  waiters.remove(second);
  tell("free", "m", value);
  assertEquals(log, ["m free"]);
});

Deno.test("Waiters knows the server's clock by the last answer of this connection while calls wait, and tells only those of an outage", async () => {
  const { client, waiters, log, add } = open();
  const [first, other] = [add("n", ownerValue("a")), add("n", ownerValue("b"))];
  const mapping = { sent: { nowMs: 1, wallMs: 1, epoch: client.epoch }, serverMs: 5 };
  const known = () => waiters.clockMapping(first.keys);
  assertEquals(known(), null);
  waiters.enqueue(first, ANSWER, mapping);
  assertEquals(log.splice(0), ["n asks"], "the inbox is open now");
  assertEquals(known(), mapping);
  assertEquals(waiters.clockMapping(lockKeys("lock:", "m")), null);
  client.epoch++;
  assertEquals(known(), null);
  client.epoch--;
  waiters.reportOutage(other);
  assertEquals(log.splice(0), [], "it was not waiting");
  waiters.reportOutage(first);
  assertEquals(log, ["n outage"]);
  waiters.remove(other);
  assertEquals(known(), mapping);
  waiters.remove(first);
  assertEquals(known(), null);
  await waiters.inbox.close();
});
