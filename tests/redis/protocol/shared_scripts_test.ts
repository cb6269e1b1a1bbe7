/**
 * The scripts with shared holders: what each rule is for (docs/redis-protocol.md, "Shared holders").
 */
import { assert, assertEquals } from "@std/assert";
import { ASK, LEAVE, QUERY, RENEW, type Script, STEAL } from "../../../redis/protocol/scripts.ts";
import { INBOX_CHANNEL_PREFIX, makeNonce, NONCE_DIGITS } from "../../../redis/protocol/keys.ts";
import {
  decodeQuery,
  DONE,
  GONE,
  GRANTED,
  HELD,
  NOTIFIED,
  OTHER_OWNER,
  QUEUED,
  SEARCHING,
} from "../../../redis/protocol/wire.ts";
import { startRedis } from "../../../testing/servers/redis.ts";
import { connectResp } from "../../../testing/servers/resp.ts";
import { decodeMessage } from "../../../redis/protocol/messages.ts";
import { waitUntil } from "../../../testing/servers/wait.ts";
import { parkedInboxes, queuedValues, sharedHolders } from "../../../testing/redis/queue_reader.ts";
import {
  FINISHED,
  QUEUE_LIFE_MS,
  SHARED_OWNER,
  SHARED_PREFIX,
} from "../../../testing/redis/wire_names.ts";
import { sha1Of } from "../../../testing/redis/digest.ts";

const [LOCK, QUEUE, WAITERS, TOKEN] = ["lock", "queue", "waiters", "token"] as const;
const KEYS = { lock: LOCK, queue: QUEUE };
const NONCE = "0".repeat(NONCE_DIGITS);
/** How many waiters one call of a script admits. */
const BATCH = 64;
const TEN_MINUTES_MS = 600_000;

function valueOf(owner: string, nonce = NONCE): string {
  return `${owner}#${nonce}`;
}

interface AskArgs {
  limit?: number;
  nonce?: string;
  ttlMs?: number;
  mode?: "wait" | "try" | "attach";
  inbox?: string;
  ticket?: number;
}

/** The scripts on a real server, called directly. Requests without a limit are exclusive. */
async function open() {
  const server = await startRedis();
  const { command } = server;
  const run = (script: Script, ...args: (string | number)[]) =>
    command("EVAL", script.source, 4, LOCK, QUEUE, WAITERS, TOKEN, ...args) as Promise<number[]>;
  const ask = (
    owner: string,
    { limit, nonce, mode = "wait", inbox = "-i", ...more }: AskArgs = {},
  ) => {
    const { ttlMs = 60_000, ticket = 0 } = more;
    const args = [valueOf(owner, nonce), ttlMs, 0, mode, `${inbox} 0 ${ticket}`];
    return run(ASK, ...args, ...(limit === undefined ? [] : [limit]));
  };
  const share = (owner: string, more: AskArgs = {}) => ask(owner, { limit: 0, ...more });
  const leave = (owner: string, tombstoneMs = 0, succession = "handoff") =>
    run(LEAVE, valueOf(owner), tombstoneMs, succession);
  const renew = (owner: string, ttlMs = 60_000) => run(RENEW, valueOf(owner), ttlMs);
  const lock = () => command("GET", LOCK) as Promise<string | null>;
  const ownersOf = (values: string[]) => values.map((value) => value.split("#")[0]!);
  const holders = async () => ownersOf(await sharedHolders(command, KEYS)).sort();
  const queue = async () => ownersOf(await queuedValues(command, KEYS));
  const life = async (key: string) => Number(await command("PTTL", key));
  /** Asserts that a key expires within `boundMs`, or just has. */
  const expires = async (key: string, boundMs: number) => {
    const leftMs = await life(key);
    assert(leftMs !== -1 && leftMs <= boundMs, `${key} lives on: ${leftMs} ms`);
  };
  return { ...server, command, run, ask, share, leave, renew, lock, holders, queue, life, expires };
}

type Redis = Awaited<ReturnType<typeof open>>;

function states(replies: number[][]): number[] {
  return replies.map(([state]) => state!);
}

Deno.test("ask.lua writes the marker, the holders and the limits of waiters in wire format 1", async () => {
  await using redis = await open();
  const [, serverMs, leftMs, token] = await redis.share("a");
  assertEquals(leftMs, 60_000);
  const generation = token!.toString(16).padStart(16, "0");
  assertEquals(await redis.lock(), SHARED_OWNER + generation);
  const until = (ms: number) => String(serverMs! + ms).padStart(16, "0");
  assertEquals(await redis.command("ZRANGE", QUEUE, 0, -1), [
    `holder ${generation} ${until(60_000)} ${valueOf("a")}`,
  ]);
  assertEquals(await redis.command("HGETALL", WAITERS), [
    SHARED_PREFIX + valueOf("a"),
    `${generation} ${serverMs! + 60_000}`,
  ]);
  await redis.ask("w");
  await redis.share("b");
  await redis.ask("c", { limit: 7 });
  const record = async (owner: string) =>
    String(await redis.command("HGET", WAITERS, `waiter:${valueOf(owner)}`)).split(" ").slice(3);
  assertEquals(await record("w"), ["-i"]);
  assertEquals(await record("b"), ["-i", "s0"]);
  assertEquals(await record("c"), ["-i", "s7"]);
  assertEquals(states([await redis.leave("a"), await redis.leave("w")]), [DONE, DONE]);
  assertEquals(await redis.holders(), ["b", "c"]);
  await redis.leave("c");
  await redis.leave("b");
  assertEquals(await redis.command("KEYS", "*"), [TOKEN]);
});

Deno.test("ask.lua never takes the marker for an owner id", async () => {
  await using redis = await open();
  await redis.share("a");
  const marker = await redis.lock();
  for (const mode of ["attach", "try"] as const) {
    const [state] = await redis.ask("holdfast:shared", { mode, nonce: makeNonce() });
    assertEquals(state, HELD);
  }
  assertEquals(await redis.lock(), marker);
  assertEquals((await redis.renew("a"))[0], DONE);
});

Deno.test("ask.lua grants each request as its own limit allows, and keeps to the order", async () => {
  await using redis = await open();
  assertEquals((await redis.ask("a", { limit: 1 }))[0], GRANTED);
  assertEquals((await redis.ask("b", { limit: 1, mode: "try" }))[0], HELD);
  assertEquals((await redis.ask("c", { limit: 2 }))[0], GRANTED);
  assertEquals((await redis.share("d"))[0], GRANTED);
  assertEquals((await redis.ask("e", { limit: 3 }))[0], QUEUED);
  assertEquals((await redis.share("f", { mode: "try" }))[0], HELD, "nobody overtakes");
  assertEquals((await redis.share("f"))[0], QUEUED);
  await redis.leave("a");
  assertEquals([await redis.holders(), await redis.queue()], [["c", "d", "e", "f"], []]);
  await redis.ask("w");
  assertEquals((await redis.share("g"))[0], QUEUED);
  assertEquals((await redis.leave("w"))[0], GONE, "it has left the queue");
  assertEquals(await redis.holders(), ["c", "d", "e", "f", "g"]);
});

for (const lost of [LOCK, QUEUE, WAITERS, TOKEN]) {
  Deno.test(`ask.lua lets no more than the limit in when the ${lost} key is lost`, async () => {
    await using redis = await open();
    const two = { limit: 2 } as const;
    await redis.ask("a", two);
    const [, , , token] = await redis.ask("b", two);
    assertEquals(await redis.command("DEL", lost), 1);
    const believers = states([await redis.renew("a"), await redis.renew("b")]);
    assertEquals(believers, Array(2).fill(lost === TOKEN ? DONE : GONE));
    const [state] = await redis.ask("c", { ...two, mode: "try" });
    // With the lock key nobody holds it any more, as for exclusive locks.
    assertEquals(state, lost === LOCK ? GRANTED : HELD);
    if (lost === LOCK) return;
    if (lost === QUEUE) {
      assertEquals(
        (await redis.share("d", { mode: "try" }))[0],
        HELD,
        "it would count as the first",
      );
    }
    assertEquals(states([await redis.leave("a"), await redis.leave("b")]), believers);
    if (lost !== TOKEN) {
      assert(
        (await redis.life(LOCK)) > 0,
        "its readers may believe in their leases until it expires",
      );
      await redis.command("PEXPIRE", LOCK, 1); // stands for the wait
      await waitUntil("it has expired", async () => await redis.lock() === null);
    }
    const [again, , , next] = await redis.ask("c", two);
    assertEquals(again, GRANTED);
    assert(next! > token!);
  });
}

Deno.test("ask.lua mints a token for a holder that asks again if the last one is lost, and else returns the last one", async () => {
  await using redis = await open();
  const [, , , first] = await redis.share("a");
  const [, , , second] = await redis.share("b");
  assert(second! > first!);
  assertEquals((await redis.share("a"))[3], second);
  await redis.command("DEL", TOKEN);
  const [state, , , minted] = await redis.share("a");
  assertEquals(state, GRANTED);
  assert(minted! > second!);
  assertEquals(Number(await redis.command("GET", TOKEN)), minted);
});

Deno.test("ask.lua and renew.lua never shorten the lives of the marker, the token and the queue while the lock is shared", async () => {
  await using redis = await open();
  await redis.share("long", { ttlMs: TEN_MINUTES_MS });
  const isKept = async (when: string) => {
    for (const [key, more] of [[LOCK, 0], [QUEUE, 0], [WAITERS, 0], [TOKEN, 50_000]] as const) {
      const leftMs = await redis.life(key);
      assert(leftMs > TEN_MINUTES_MS - 60_000 + more, `${key} after ${when}: ${leftMs} ms`);
    }
  };
  await redis.share("short", { ttlMs: 100 });
  await isKept("a short grant");
  await redis.share("other");
  await redis.renew("other", 1_000);
  await isKept("a renewal");
  const [, , , ticket] = await redis.ask("w", { inbox: "w" });
  await redis.ask("w", { inbox: "w", ticket: ticket! });
  await isKept("asks of a waiter");
  await redis.command("HDEL", WAITERS, "inbox:w");
  await redis.share("try", { mode: "try" });
  assertEquals(await parkedInboxes(redis.command, KEYS), 1);
  await isKept("a parked inbox");
  await redis.leave("w", 1_000);
  await redis.leave("other", 1_000);
  await isKept("a tombstone");
  assertEquals((await redis.renew("long", 1_000))[1]! > TEN_MINUTES_MS - 60_000, true);
  for (const owner of ["short", "try", "long"]) await redis.leave(owner);
  for (const key of [QUEUE, WAITERS]) await redis.expires(key, QUEUE_LIFE_MS);
});

Deno.test("renew.lua answers gone to a shared holder whose generation is over", async () => {
  await using redis = await open();
  const ends: [string, (redis: Redis) => Promise<unknown>][] = [
    ["a foreign DEL", ({ command }) => command("DEL", LOCK)],
    ["a steal", async ({ run, lock }) => {
      await run(STEAL, valueOf("thief"), 60_000, 0, sha1Of((await lock())!));
      assertEquals((await redis.renew("reader"))[0], OTHER_OWNER);
      await redis.leave("thief");
    }],
    ["an exclusive hold", async ({ command }) => {
      await command("DEL", LOCK);
      await redis.ask("w");
      await redis.leave("w");
    }],
  ];
  for (const [what, end] of ends) {
    await redis.share("reader");
    await end(redis);
    assertEquals((await redis.renew("reader"))[0], GONE, what);
    const [, , , token] = await redis.share("new");
    assert((await redis.lock())!.endsWith(token!.toString(16)), "a new generation");
    assertEquals((await redis.renew("reader"))[0], GONE, what);
    assertEquals((await redis.leave("reader"))[0], GONE, what);
    assertEquals((await redis.renew("new"))[0], DONE, what);
    await redis.leave("new");
  }
});

Deno.test("ask.lua sweeps two holders that have expired or are of earlier generations per shared grant", async () => {
  await using redis = await open();
  for (let i = 0; i < 5; i++) await redis.share(`old${i}`);
  await redis.command("DEL", LOCK);
  const owners = async () => {
    const members = await redis.command("ZRANGE", QUEUE, 0, -1) as string[];
    return members.map((member) => /^holder \S+ \S+ (\w+)#/.exec(member)?.[1]).sort();
  };
  await redis.share("a");
  assertEquals(await owners(), ["a", "old2", "old3", "old4"]);
  await redis.share("old4"); // its field is of a newer grant than its first member
  assertEquals(await owners(), ["a", "old4", "old4"]);
  await redis.share("b");
  assertEquals(await owners(), ["a", "b", "old4"]);
  assertEquals((await redis.renew("old4"))[0], DONE);
  assertEquals(await redis.command("HLEN", WAITERS), 3);
});

Deno.test("leave.lua keeps the lock for the longest TTL after the crash of its last holders", async () => {
  await using redis = await open();
  await waitUntil("the other one leaves first", async () => {
    await redis.share("long", { ttlMs: 60_000 });
    await redis.share("dead", { ttlMs: 500 });
    await redis.leave("long");
    return await redis.lock() !== null;
  });
  await waitUntil("its lease is over", async () => {
    return decodeQuery(await redis.run(QUERY, 0)).shared?.holderCount === 0;
  });
  assertEquals((await redis.ask("w", { mode: "try" }))[0], HELD);
  const [state] = await redis.ask("p", { limit: 1, mode: "try" });
  assertEquals(state, GRANTED, "its place is free");
  await redis.leave("p");
  assertEquals(await redis.lock(), null);
});

/** A writer, and so many readers that wait, in turn of these inboxes. */
async function crowd(redis: Redis, readers: number, inboxes = ["-a", "-b", "-c"]) {
  await redis.ask("w");
  for (let i = 0; i < readers; i++) {
    const [, , , ticket] = await redis.share(`r${i}`, { inbox: inboxes[i % inboxes.length]! });
    assertEquals(ticket, i + 1);
  }
}

Deno.test("leave.lua admits waiters in batches, and answers searching until all are in", async () => {
  await using redis = await open();
  await crowd(redis, 2 * BATCH + 10);
  const replies = [];
  for (let i = 0; i < 3; i++) {
    replies.push(await redis.leave("w"));
    assertEquals((await redis.holders()).length, Math.min((i + 1) * BATCH, 2 * BATCH + 10));
  }
  assertEquals(replies, [
    [DONE, NOTIFIED, SEARCHING],
    [GONE, NOTIFIED, SEARCHING],
    [GONE, NOTIFIED, FINISHED],
  ]);
  assertEquals(await redis.queue(), []);
});

Deno.test("ask.lua goes on with a batch before it answers granted, when the lock was freed without a leave", async () => {
  await using redis = await open();
  await crowd(redis, 2 * BATCH + 10);
  await redis.command("DEL", LOCK); // stands for its expiry
  const asker = { inbox: "-a", ticket: 1 };
  assertEquals((await redis.share("r0", asker))[0], SEARCHING);
  assertEquals((await redis.holders()).includes("r0"), true);
  assertEquals((await redis.share("r0", asker))[0], SEARCHING);
  const [state, , leftMs] = await redis.share("r0", asker);
  assertEquals([state, leftMs], [GRANTED, 60_000]);
  assertEquals([await redis.queue(), (await redis.holders()).length], [[], 2 * BATCH + 10]);
});

Deno.test("ask.lua goes on with the batch of a caller that died after any of its calls", async () => {
  await using redis = await open();
  for (const calls of [1, 2]) {
    await crowd(redis, 3 * BATCH);
    for (let i = 0; i < calls; i++) assertEquals((await redis.leave("w"))[2], SEARCHING);
    assertEquals(
      (await redis.ask("x", { mode: "try" }))[0],
      HELD,
      "an exclusive ask does not look",
    );
    const [first] = await redis.queue();
    const ticket = Number(first!.slice(1)) + 1;
    let state: number;
    do [state] = await redis.share(first!, { inbox: "-a", ticket }) as [number]; while (
      state === SEARCHING
    );
    assertEquals([state, await redis.queue()], [GRANTED, []]);
    await redis.command("FLUSHALL");
  }
});

Deno.test("ask.lua tells an exclusive caller at once that it waits, if its ask begins a batch of others", async () => {
  await using redis = await open();
  await crowd(redis, BATCH + 10);
  await redis.command("DEL", LOCK);
  const [state, , , , position] = await redis.ask("x");
  assertEquals([state, position, (await redis.holders()).length], [QUEUED, 11, BATCH]);
  await redis.ask("r64", { limit: 0, inbox: "-b", ticket: 65 });
  assertEquals([await redis.queue(), (await redis.holders()).length], [["x"], BATCH + 10]);
});

Deno.test("ask.lua admits shared waiters before a free lock for an exclusive caller, too", async () => {
  await using redis = await open();
  await crowd(redis, 2);
  await redis.command("DEL", LOCK);
  const [state, , , , position] = await redis.ask("x");
  assertEquals([state, position, await redis.holders()], [QUEUED, 1, ["r0", "r1"]]);
  await redis.leave("r0");
  await redis.leave("r1");
  assertEquals(await redis.lock(), valueOf("x"));
});

Deno.test("ask.lua parks no inbox for a shared claim that lapses", async () => {
  await using redis = await open();
  await crowd(redis, 2, ["-a", "-b"]);
  await redis.leave("w");
  assertEquals(await redis.holders(), ["r0", "r1"]);
  await redis.expires(LOCK, 3_000); // a claim
  await redis.command("DEL", LOCK); // stands for the end of both claims
  assertEquals((await redis.share("r1", { inbox: "-b" }))[0], GRANTED);
  assertEquals(await parkedInboxes(redis.command, KEYS), 0);
  assertEquals((await redis.share("r0", { inbox: "-a", ticket: 1 }))[0], GRANTED);
});

Deno.test("leave.lua and ask.lua admit waiters while memory is full", async () => {
  await using redis = await open();
  await crowd(redis, 3);
  await redis.command("CONFIG", "SET", "maxmemory", 1);
  assertEquals(await redis.leave("w"), [DONE, NOTIFIED, FINISHED]);
  assertEquals(await redis.holders(), ["r0", "r1", "r2"]);
  for (const owner of ["r0", "r1", "r2"]) {
    assertEquals(await redis.renew(owner), [DONE, 60_000]);
    assertEquals((await redis.share(owner))[0], GRANTED);
  }
  await redis.share("r9").then(
    () => assert(false, "refused"),
    (error) => assert(/OOM/.test(error)),
  );
  await redis.command("CONFIG", "SET", "maxmemory", 0);
  assertEquals(await redis.queue(), []);
});

Deno.test("leave.lua without handoff notifies the first waiter when it may hold the lock, and its ask admits those behind it", async () => {
  await using redis = await open();
  using subscriber = await connectResp(redis.url);
  await subscriber.command("SUBSCRIBE", `${INBOX_CHANNEL_PREFIX}i`);
  const next = async () => decodeMessage((await subscriber.next() as string[])[2]!);
  const free = (owner: string) => ({
    ...{ kind: "free" as const, lockKey: LOCK, value: valueOf(owner) },
  });
  const at = { inbox: "i" } as const;
  await redis.ask("a", { limit: 3 });
  await redis.ask("b", { limit: 3 });
  await redis.ask("w", at);
  await redis.ask("c", { limit: 2, ...at });
  await redis.share("d", at);
  assertEquals(await redis.leave("b", 0, "free"), [DONE, NOTIFIED, FINISHED]);
  assertEquals(await redis.leave("a", 0, "free"), [DONE, NOTIFIED, FINISHED]);
  assertEquals(await next(), free("w"), "not before the last one has left");
  assertEquals(await redis.lock(), null);
  assertEquals((await redis.ask("w", { ...at, ticket: 1 }))[0], GRANTED);
  await redis.leave("w", 0, "free");
  assertEquals(await next(), free("c"));
  assertEquals((await redis.ask("c", { limit: 2, ...at, ticket: 2 }))[0], GRANTED);
  const granted = await next();
  assertEquals([granted?.kind, granted?.value], ["grant", valueOf("d")]);
  assertEquals(await redis.holders(), ["c", "d"]);
  await redis.ask("e", { limit: 2, ...at });
  await redis.leave("d", 0, "free");
  assertEquals(await next(), free("e"));
  assertEquals(await redis.holders(), ["c"]);
});

Deno.test("steal.lua takes the lock from all shared holders, and notifies those whose inboxes are open, in bounded calls", async () => {
  await using redis = await open();
  using subscriber = await connectResp(redis.url);
  const nonce = makeNonce();
  await subscriber.command("SUBSCRIBE", INBOX_CHANNEL_PREFIX + nonce);
  for (let i = 0; i < BATCH + 20; i++) await redis.share(`r${i}`, { nonce, ttlMs: 60_000 + i });
  const [held] = await redis.run(STEAL, valueOf("thief"), 60_000, 0, sha1Of(valueOf("r1", nonce)));
  assertEquals(held, HELD);
  const digest = sha1Of((await redis.lock())!);
  const [state, , , token] = await redis.run(STEAL, valueOf("thief"), 60_000, 0, digest);
  assertEquals([state, await redis.lock()], [GRANTED, valueOf("thief")]);
  assertEquals(Number(await redis.command("GET", TOKEN)), token);
  for (let i = 0; i < BATCH; i++) {
    const stolen = decodeMessage((await subscriber.next() as string[])[2]!);
    assertEquals(stolen, { kind: "stolen", lockKey: LOCK, value: valueOf(`r${i}`, nonce) });
  }
  await redis.command("PUBLISH", INBOX_CHANNEL_PREFIX + nonce, "the end");
  assertEquals((await subscriber.next() as string[])[2], "the end");
  assertEquals(await redis.run(RENEW, valueOf("r0", nonce), 1_000), [OTHER_OWNER]);
});

Deno.test("query.lua lists the first 64 live holders of a shared lock in order of expiry, and counts all", async () => {
  await using redis = await open();
  for (let i = 0; i < BATCH + 6; i++) await redis.share(`r${i}`, { ttlMs: 90_000 - i * 800 });
  await redis.ask("w");
  const { value, waiterCount, shared } = decodeQuery(await redis.run(QUERY, 10));
  assertEquals([value?.startsWith(SHARED_OWNER), waiterCount], [true, 1]);
  assertEquals(shared?.holderCount, BATCH + 6);
  const values = shared?.holders.map(({ value }) => value);
  assertEquals(values, Array.from({ length: BATCH }, (_, i) => valueOf(`r${BATCH + 5 - i}`)));
  for (const { leftMs } of shared!.holders) assert(leftMs > 10_000 && leftMs <= QUEUE_LIFE_MS);
});

Deno.test("steal.lua lets the queue of the holders that it ends expire", async () => {
  await using redis = await open();
  await redis.share("long", { ttlMs: TEN_MINUTES_MS });
  await redis.run(STEAL, valueOf("thief"), 1_000, 0, sha1Of((await redis.lock())!));
  await redis.leave("thief");
  for (const key of [QUEUE, WAITERS]) await redis.expires(key, QUEUE_LIFE_MS);
});
