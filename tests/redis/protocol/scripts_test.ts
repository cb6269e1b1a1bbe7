import { assert, assertEquals, assertMatch } from "@std/assert";
import { ASK, LEAVE, QUERY, RENEW, type Script, STEAL } from "../../../redis/protocol/scripts.ts";
import {
  decodeQuery,
  DONE,
  GONE,
  GRANTED,
  HAS_LEFT_BEFORE,
  HELD,
  HOLDER_IS_OURS,
  NOTIFIED,
  OTHER_OWNER,
  OWNER_HAS_LEFT,
  QUEUED,
  SEARCHING,
  TOO_LATE,
} from "../../../redis/protocol/wire.ts";
import { INBOX_CHANNEL_PREFIX, NONCE_DIGITS } from "../../../redis/protocol/keys.ts";
import { locate } from "../../../tools/lua_source.ts";
import { startRedis } from "../../../testing/servers/redis.ts";
import { connectResp } from "../../../testing/servers/resp.ts";
import { decodeMessage } from "../../../redis/protocol/messages.ts";
import { waitUntil } from "../../../testing/servers/wait.ts";
import { queuedValues } from "../../../testing/redis/queue_reader.ts";
import { FINISHED, HOLDER_IS_FOREIGN, QUEUE_LIFE_MS } from "../../../testing/redis/wire_names.ts";
import { sha1Of } from "../../../testing/redis/digest.ts";
import { LONG_BOUND_MS, LONG_TTL_MS } from "../../../testing/time.ts";

const [LOCK, QUEUE, WAITERS, TOKEN] = ["lock", "queue", "waiters", "token"];
/** The end of an owner value: 16 hex digits. */
const NONCE = "0".repeat(NONCE_DIGITS);
const FIRST_NONCE = "1".repeat(NONCE_DIGITS);
const SECOND_NONCE = "2".repeat(NONCE_DIGITS);

/** The value of an owner in these tests. */
function valueOf(owner: string, nonce = NONCE): string {
  return `${owner}#${nonce}`;
}

interface AskArgs {
  owner: string;
  nonce?: string;
  ttlMs?: number;
  notAfterMs?: number;
  mode?: "wait" | "try" | "attach";
  inbox?: string;
  listens?: boolean;
  ticket?: number;
}

/** The scripts on a real server, called directly. */
async function open() {
  const server = await startRedis();
  const run = (script: Script, ...args: (string | number)[]) =>
    server.command("EVAL", script.source, 4, LOCK, QUEUE, WAITERS, TOKEN, ...args) as Promise<
      number[]
    >;
  const ask = ({ owner, mode = "wait", inbox = "-i", ...more }: AskArgs) => {
    const { nonce, ttlMs = 60_000, notAfterMs = 0, listens = false, ticket = 0 } = more;
    const place = `${inbox} ${listens ? 1 : 0} ${ticket}`;
    return run(ASK, valueOf(owner, nonce), ttlMs, notAfterMs, mode, place);
  };
  const leave = async (owner: string, tombstoneMs = 0, succession = "handoff") =>
    (await run(LEAVE, valueOf(owner), tombstoneMs, succession))[0];
  const holder = () => server.command("GET", LOCK);
  /** Asserts that the queue's keys expire. */
  const isMortal = async () => {
    for (const key of [QUEUE, WAITERS]) {
      const leftMs = Number(await server.command("PTTL", key));
      assert(leftMs > 0 && leftMs <= QUEUE_LIFE_MS, `${key} lives for ${leftMs} ms`);
    }
  };
  /** Asserts that the lock expires within `boundMs`, or just has. */
  const isClaim = async (boundMs: number) => {
    const leftMs = Number(await server.command("PTTL", LOCK));
    assert(leftMs !== -1 && leftMs <= boundMs, `a claim of ${leftMs} ms`);
  };
  const queue = () => queuedValues(server.command, { queue: QUEUE! });
  return { ...server, run, ask, leave, holder, isMortal, isClaim, queue, command: server.command };
}

Deno.test("ask.lua and steal.lua do nothing after their time limit", async () => {
  await using redis = await open();
  for (const late of [true, false]) {
    const notAfterMs = Date.now() + (late ? -60_000 : 60_000);
    const [state, serverMs] = await redis.ask({ owner: "a", notAfterMs });
    assertEquals(state, late ? TOO_LATE : GRANTED);
    assert(Math.abs(serverMs! - Date.now()) < 60_000);
    await redis.command("DEL", LOCK, TOKEN);
    const [stolen] = await redis.run(STEAL, valueOf("a"), 60_000, notAfterMs, "x");
    assertEquals(stolen, late ? TOO_LATE : GRANTED);
    assertEquals(await redis.command("EXISTS", LOCK), late ? 0 : 1);
    await redis.command("DEL", LOCK, TOKEN);
  }
});

Deno.test("ask.lua extends but never shortens a lock when an ask is executed again, and keeps the token", async () => {
  await using redis = await open();
  const [, , , token] = await redis.ask({ owner: "a", ttlMs: 60_000 });
  const [state, , left, again] = await redis.ask({ owner: "a", ttlMs: 1_000 });
  assertEquals([state, again], [GRANTED, token]);
  assert(left! > 50_000 && Number(await redis.command("PTTL", LOCK)) > 50_000);
  const [taken, , , next] = await redis.ask({ owner: "a", nonce: FIRST_NONCE, ttlMs: 1_000 });
  assertEquals(taken, GRANTED);
  assert(BigInt(next!) > BigInt(token!), "a new call of the same owner is a new grant");
  assert(Number(await redis.command("PTTL", LOCK)) > 50_000);
});

Deno.test("ask.lua lets the last token outlive the lock by a minute", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a", ttlMs: 30_000 });
  const left = Number(await redis.command("PTTL", TOKEN));
  assert(left > 60_000 && left <= 90_000, `${left} ms`);
});

Deno.test("leave.lua hands the lock to the next live waiter, and leaves only the token when all have left", async () => {
  await using redis = await open();
  assertEquals((await redis.ask({ owner: "a" }))[0], GRANTED);
  for (const [i, owner] of ["b", "c", "d"].entries()) {
    const [state, , left, ticket, position, waiters, , ours] = await redis.ask({ owner });
    assertEquals([state, ticket, position, waiters], [QUEUED, i + 1, i + 1, i + 1]);
    assertEquals((await redis.ask({ owner, ticket: i + 1 }))[6], i + 1, "known of this inbox");
    assert(left! > 4_000 && ours === HOLDER_IS_OURS);
  }
  assertEquals(await redis.leave("c"), OTHER_OWNER);
  assertEquals(await redis.leave("a"), DONE);
  assertEquals(await redis.holder(), valueOf("b"));
  await redis.isClaim(3_000);
  assertEquals(await redis.queue(), [valueOf("d")]);
  assertEquals(await redis.leave("a"), OTHER_OWNER, "a release is done once");
  assertEquals(await redis.leave("b"), DONE);
  assertEquals(await redis.leave("d"), DONE);
  assertEquals(await redis.command("KEYS", "*"), [TOKEN]);
});

Deno.test("ask.lua reports whether the holder uses this library when it queues the caller", async () => {
  await using redis = await open();
  for (const [value, origin] of [[valueOf("a"), HOLDER_IS_OURS], ["plain", HOLDER_IS_FOREIGN]]) {
    await redis.command("SET", LOCK, value!, "PX", 5_000);
    assertEquals((await redis.ask({ owner: "b" }))[7], origin);
  }
});

Deno.test("Scripts write the waiters hash and the messages in wire format 1", async () => {
  await using redis = await open();
  using subscriber = await connectResp(redis.url);
  await subscriber.command("SUBSCRIBE", `${INBOX_CHANNEL_PREFIX}i`);
  await redis.ask({ owner: "a" });
  const [, sinceMs] = await redis.ask({ owner: "b c", inbox: "i", ttlMs: 2_000 });
  await redis.ask({ owner: "b c", inbox: "i", ttlMs: 2_000, listens: true, ticket: 1 });
  const fields = async () => {
    const list = await redis.command("HGETALL", WAITERS) as string[];
    return Object.fromEntries(list.flatMap((name, i) => i % 2 ? [] : [[name, list[i + 1]!]]));
  };
  const { "inbox:i": leaseEndMs, ...others } = await fields();
  assert(Number(leaseEndMs) >= sinceMs! + 6_000);
  assertEquals(others, {
    "last_ticket": "1",
    [`waiter:${valueOf("b c")}`]: `1 ${sinceMs} 2000 i`,
    "listening:i": "1",
  });
  // A later version may add words.
  await redis.command("HSET", WAITERS, `waiter:${valueOf("b c")}`, `1 ${sinceMs} 2000 i trace x`);
  assertEquals(await redis.leave("a", 1_000), DONE);
  const message = decodeMessage((await subscriber.next() as string[])[2]!);
  assert(message?.kind === "grant");
  const { serverMs, fencingToken, ...rest } = message;
  assert(Math.abs(serverMs - Date.now()) < 60_000);
  assertEquals(fencingToken, BigInt(String(await redis.command("GET", TOKEN))));
  assertEquals(rest, { kind: "grant", lockKey: LOCK, value: valueOf("b c"), claimMs: 2_000 });
  assertEquals((await fields())["holder"], `unconfirmed i ${valueOf("b c")}`);
  const tombstone = (await fields())[`tombstone:${valueOf("a")}`];
  assert(Math.abs(Number(tombstone) - Date.now()) < 60_000);
  await redis.run(RENEW, valueOf("b c"), 5_000);
  assertEquals((await fields())["holder"], `confirmed i ${valueOf("b c")}`);
  await redis.run(STEAL, valueOf("d"), 5_000, 0, sha1Of(valueOf("b c")));
  const stolen = decodeMessage((await subscriber.next() as string[])[2]!);
  assertEquals(stolen, { kind: "stolen", lockKey: LOCK, value: valueOf("b c") });
});

Deno.test("locate() finds the source line for the line in a script's error", async () => {
  await using redis = await open();
  await redis.command("SET", WAITERS, "not a hash");
  await redis.command("SET", QUEUE, "not a sorted set");
  const error = await redis.ask({ owner: "a" }).then(() => "", (error) => error.message);
  const [, line] = /user_script:(\d+)/.exec(error) ?? [];
  assertMatch(locate(`ask:${line}`).text, /HMGET|HSET|^\)\)$|unpack\(redis\.call\($/, error);
  assertEquals(locate(`ask:${line}`).path, "redis/protocol/scripts/ask.lua");
  await redis.command("DEL", WAITERS);
  await redis.ask({ owner: "a" });
  const inPart = await redis.ask({ owner: "b" }).then(() => "", (error) => error.message);
  const found = locate(`ask:${/user_script:(\d+)/.exec(inPart)?.[1]}`);
  assertEquals(found.path, "redis/protocol/scripts/parts/queue.lua");
  assertMatch(found.text, /ZRANGEBYLEX/);
});

Deno.test("ask.lua grants a free lock to the first waiter, not to a later caller", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "b" });
  await redis.command("DEL", LOCK); // stands for its expiry
  assertEquals((await redis.ask({ owner: "c", mode: "try" }))[0], HELD);
  assertEquals(await redis.holder(), valueOf("b"));
  await redis.command("DEL", LOCK);
  assertEquals((await redis.ask({ owner: "c", mode: "try" }))[0], GRANTED, "nobody waits any more");
});

Deno.test("ask.lua returns a waiter to its old place, and never moves it backward", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "b" });
  await redis.ask({ owner: "c" });
  await redis.ask({ owner: "d" });
  const [, , , ticket, position] = await redis.ask({ owner: "c" });
  assertEquals([ticket, position], [2, 2], "the server kept the ticket");
  await redis.leave("c");
  assertEquals((await redis.ask({ owner: "c", ticket: 2 }))[4], 2, "the waiter kept the ticket");
  assertEquals((await redis.ask({ owner: "c", ticket: 9 }))[4], 2, "never backward");
  assertEquals(await redis.queue(), [valueOf("b"), valueOf("c"), valueOf("d")]);
});

Deno.test("ask.lua puts waiters with earlier tickets ahead of new ones when the queue was lost", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "c", ticket: 41 });
  await redis.ask({ owner: "new" });
  await redis.ask({ owner: "b", ticket: 40 });
  assertEquals(await redis.queue(), [valueOf("b"), valueOf("c"), valueOf("new")]);
});

Deno.test("ask.lua and steal.lua refuse an owner value while it has a tombstone", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  assertEquals(await redis.leave("a", 60_000), DONE);
  assertEquals((await redis.ask({ owner: "a" }))[0], OWNER_HAS_LEFT);
  assertEquals((await redis.run(STEAL, valueOf("a"), 1_000, 0, "x"))[0], OWNER_HAS_LEFT);
  assertEquals(await redis.holder(), null);
  await redis.ask({ owner: "b" });
  assertEquals(await redis.leave("b", 1), DONE);
  await waitUntil("it is forgotten", async () => (await redis.ask({ owner: "b" }))[0] === GRANTED);
  assertEquals(await redis.leave("b"), DONE);
  assertEquals(
    (await redis.ask({ owner: "a", nonce: FIRST_NONCE }))[0],
    GRANTED,
    "it does not refuse another call of the owner id",
  );
});

Deno.test("leave.lua skips waiters whose inbox has no lease or has lost its subscriber", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "dead", inbox: "dead" });
  await redis.command("HSET", WAITERS, "inbox:dead", 1);
  await redis.ask({ owner: "deaf", inbox: "deaf" });
  await redis.command("HSET", WAITERS, "listening:deaf", 1); // it had a subscriber once
  await redis.ask({ owner: "quiet", inbox: "quiet" }); // it was never seen with a subscriber
  await redis.leave("a");
  assertEquals(await redis.holder(), valueOf("quiet"));
  await redis.leave("quiet");
  assertEquals(await redis.holder(), valueOf("deaf"), "its process may be alive");
  await redis.isClaim(1_000);
  const [state] = await redis.ask({ owner: "deaf", inbox: "deaf" });
  assertEquals(state, GRANTED, "a waiter that asks is alive");
  await redis.leave("deaf");
  assertEquals(await redis.holder(), null, "the lease of a dead process is over");
});

Deno.test("leave.lua grants the first waiter a short claim and keeps all places when no inbox has a subscriber", async () => {
  await using redis = await open();
  const owners = ["b", "c", "d"];
  await redis.ask({ owner: "a" });
  for (const owner of owners) await redis.ask({ owner, inbox: owner });
  for (const inbox of owners) await redis.command("HSET", WAITERS, `listening:${inbox}`, 1);
  await redis.leave("a");
  assertEquals(await redis.holder(), valueOf("b"));
  await redis.isClaim(1_000);
  assertEquals(await redis.queue(), [valueOf("c"), valueOf("d")]);
  await redis.isMortal();
  assertEquals((await redis.ask({ owner: "b", inbox: "b", ticket: 1 }))[0], GRANTED, "it is back");
  assert(Number(await redis.command("PTTL", LOCK)) > 4_000);
  await redis.leave("b", 0, "free");
  assertEquals(await redis.holder(), null);
  assertEquals(await redis.queue(), [valueOf("c"), valueOf("d")], "without handoff, too");
  await redis.ask({ owner: "late", mode: "try" });
  assertEquals(await redis.holder(), valueOf("c"), "a later caller does not overtake");
  await redis.command("DEL", LOCK); // its claim expires
  assertEquals(
    (await redis.ask({ owner: "new", inbox: "new" }))[0],
    GRANTED,
    "a caller is alive",
  );
  assertEquals(await redis.queue(), [valueOf("d")], "it keeps its place");
});

Deno.test("ask.lua skips all waiters of an inbox that let a claim expire unconfirmed", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  for (let i = 0; i < 5; i++) await redis.ask({ owner: `frozen${i}`, inbox: "frozen" });
  await redis.ask({ owner: "b", inbox: "b" });
  await redis.leave("a");
  assertEquals(await redis.holder(), valueOf("frozen0"));
  await redis.command("DEL", LOCK); // its claim expires
  assertEquals((await redis.ask({ owner: "c", mode: "try" }))[0], HELD);
  assertEquals(await redis.holder(), valueOf("b"));
});

Deno.test("ask.lua puts the waiters of a parked inbox ahead of callers that came later", async () => {
  await using redis = await open();
  const back = [1, 2, 3].map((ticket) => ({ owner: `frozen${ticket}`, inbox: "frozen", ticket }));
  await redis.ask({ owner: "a" });
  for (const { owner, inbox } of back) await redis.ask({ owner, inbox });
  await redis.leave("a");
  await redis.command("DEL", LOCK); // its claim expires
  // The queue is empty now: a new caller finds the lock free, and so does the next.
  assertEquals((await redis.ask({ owner: "b", inbox: "b" }))[0], GRANTED);
  await redis.leave("b");
  assertEquals((await redis.ask({ owner: "c", inbox: "c" }))[0], GRANTED);
  for (const owner of ["d", "e"]) await redis.ask({ owner, inbox: owner });
  for (const ask of back) await redis.ask(ask);
  assertEquals(await redis.queue(), [
    valueOf("frozen1"),
    valueOf("frozen2"),
    valueOf("frozen3"),
    valueOf("d"),
    valueOf("e"),
  ]);
  await redis.isMortal();
});

Deno.test("ask.lua does not skip the waiters of an inbox whose confirmed holder died", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "b", inbox: "i" });
  await redis.ask({ owner: "c", inbox: "i" });
  await redis.leave("a");
  assertEquals((await redis.run(RENEW, valueOf("b"), 5_000))[0], DONE);
  await redis.command("DEL", LOCK);
  await redis.ask({ owner: "d", mode: "try" });
  assertEquals(await redis.holder(), valueOf("c"));
});

Deno.test("leave.lua confirms the claim that it keeps, so that nobody parks its process", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "p1", inbox: "p" });
  await redis.ask({ owner: "p2", inbox: "p" });
  await redis.ask({ owner: "b", inbox: "b" });
  await redis.leave("a"); // p1 gets a claim
  const [outcome] = await redis.run(LEAVE, valueOf("p1"), 0, "handoff", "keep");
  assertEquals([outcome, await redis.holder()], [OTHER_OWNER, valueOf("p1")]);
  await redis.command("DEL", LOCK); // it has expired
  assertEquals((await redis.ask({ owner: "b", inbox: "b", ticket: 3 }))[0], QUEUED);
  assertEquals(await redis.holder(), valueOf("p2"));
});

Deno.test("leave.lua frees the lock and keeps the queue when handoff is off", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "b" });
  assertEquals(await redis.leave("a", 0, "free"), DONE);
  assertEquals(await redis.holder(), null);
  assertEquals(await redis.queue(), [valueOf("b")]);
  await redis.isMortal();
  assertEquals((await redis.ask({ owner: "b" }))[0], GRANTED);
});

Deno.test("ask.lua sweeps the waiters of dead processes when their time as parked inboxes is over", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  for (let i = 0; i < 200; i++) await redis.ask({ owner: `dead${i}`, inbox: `dead${i % 2}` });
  await redis.ask({ owner: "b", inbox: "b" });
  for (const inbox of ["dead0", "dead1"]) await redis.command("HDEL", WAITERS, `inbox:${inbox}`);
  await redis.leave("a");
  assertEquals(await redis.holder(), valueOf("b"));
  await redis.ask({ owner: "b", inbox: "b" }); // for more than the time of a claim
  const parked = await redis.command("ZRANGEBYLEX", QUEUE, "[parked ", "(parked!") as string[];
  assertEquals(parked.length, 2, "one entry for each dead process");
  assertEquals((await redis.queue()).length, 200, "its waiters keep their places");
  for (const member of parked) { // a minute passes
    const inbox = member.split(" ")[2]!;
    await redis.command("ZREM", QUEUE, member);
    await redis.command("ZADD", QUEUE, 0, `parked ${"0".repeat(15)}1 ${inbox}`);
    await redis.command("HSET", WAITERS, `parked:${inbox}`, 1);
  }
  for (let i = 0; i < 16 * 8; i++) await redis.ask({ owner: `b${i}`, inbox: "b" });
  assertEquals((await redis.queue()).length, 16 * 8);
  const left = [
    ...await redis.command("HKEYS", WAITERS) as string[],
    ...await redis.command("ZRANGE", QUEUE, 0, -1) as string[],
  ];
  assertEquals(left.filter((text) => text.includes("dead")), []);
});

Deno.test("ask.lua parks and sweeps dead waiters also while one holder keeps the lock, behind many that live", async () => {
  await using redis = await open();
  const DEAD = 64;
  const keysWith = async (text: string) => {
    const keys = [
      ...await redis.command("HKEYS", WAITERS) as string[],
      ...await redis.command("ZRANGE", QUEUE, 0, -1) as string[],
    ];
    return keys.filter((key) => key.includes(text));
  };
  const parked = () =>
    redis.command("ZRANGEBYLEX", QUEUE, "[parked ", "(parked!") as Promise<string[]>;
  await redis.ask({ owner: "a" });
  for (let i = 0; i < 40; i++) {
    await redis.ask({ owner: `live${i}`, inbox: `live${i}` });
    await redis.command("HSET", WAITERS, `inbox:live${i}`, Date.now() + LONG_BOUND_MS);
  }
  for (let i = 0; i < DEAD; i++) {
    await redis.ask({ owner: `dead${i}`, inbox: `dead${i}` });
    await redis.command("HDEL", WAITERS, `inbox:dead${i}`); // its lease is over
  }
  for (let i = 0; i < DEAD; i++) await redis.ask({ owner: `b${i}`, inbox: "b" });
  assertEquals((await parked()).length, DEAD);
  for (const member of await parked()) { // a minute passes
    const inbox = member.split(" ")[2]!;
    await redis.command("ZREM", QUEUE, member);
    await redis.command("ZADD", QUEUE, 0, `parked ${"0".repeat(15)}1 ${inbox}`);
    await redis.command("HSET", WAITERS, `parked:${inbox}`, 1);
  }
  for (let i = 0; i < DEAD; i++) await redis.ask({ owner: `c${i}`, inbox: "b" });
  assertEquals(await keysWith("dead"), []);
  assertEquals((await redis.queue()).length, 40 + 2 * DEAD, "nobody else has lost its place");
  assertEquals(await redis.holder(), valueOf("a"));
});

Deno.test("ask.lua parks an inbox that was set aside, if its process has died since, while others get the lock", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "p", inbox: "p" });
  await redis.command("HSET", WAITERS, "listening:p", 1); // it has no subscriber any more
  await redis.ask({ owner: "b", inbox: "b" });
  await redis.leave("a");
  assertEquals(await redis.holder(), valueOf("b"));
  const count = (family: string) => redis.command("ZLEXCOUNT", QUEUE, `[${family} `, `(${family}!`);
  assertEquals([await count("unheard"), await count("parked")], [1, 0]);
  await redis.command("HDEL", WAITERS, "inbox:p");
  for (let i = 0; i < 16; i++) await redis.ask({ owner: `c${i}`, inbox: "c" });
  assertEquals([await count("unheard"), await count("parked")], [0, 1]);
});

Deno.test("ask.lua sweeps the waiters of a dead process also if the hash was lost while it was parked", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  for (let i = 0; i < 4; i++) await redis.ask({ owner: `dead${i}`, inbox: "dead" });
  await redis.ask({ owner: "b", inbox: "b" });
  await redis.command("HDEL", WAITERS, "inbox:dead");
  await redis.leave("a");
  await redis.ask({ owner: "b", inbox: "b" }); // for more than the time of a claim
  const [member] = await redis.command("ZRANGEBYLEX", QUEUE, "[parked ", "(parked!") as string[];
  await redis.command("DEL", WAITERS);
  await redis.command("ZREM", QUEUE, member!); // a minute passes
  await redis.command("ZADD", QUEUE, 0, `parked ${"0".repeat(15)}1 dead`);
  for (let i = 0; i < 16; i++) await redis.ask({ owner: `c${i}`, inbox: "c" });
  const left = await redis.command("ZRANGE", QUEUE, 0, -1) as string[];
  assertEquals(left.filter((text) => text.includes("dead")), []);
  assertEquals((await redis.queue()).length, 16);
});

Deno.test("leave.lua finds the next waiter after a sweep of an inbox that came back and lost its hash again", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "p", inbox: "p" });
  for (let i = 0; i < 40; i++) await redis.ask({ owner: `b${i}`, inbox: `b${i}` });
  await redis.command("ZADD", QUEUE, 0, `parked ${"0".repeat(15)}1 p`); // from before an earlier loss
  const [next] = await redis.command("ZRANGEBYLEX", QUEUE, "[next ", "(next!") as string[];
  await redis.command("DEL", WAITERS);
  await redis.command("HSET", WAITERS, "swept", next!); // the next sweep begins behind it
  await redis.ask({ owner: "c", inbox: "c", ticket: 48 });
  await redis.ask({ owner: "d", inbox: "d" });
  assertEquals(await redis.leave("a"), DONE);
});

Deno.test("leave.lua finds the next waiter after the hash was lost while an inbox was set aside", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "z", inbox: "z" });
  await redis.ask({ owner: "b", inbox: "p" });
  await redis.ask({ owner: "c", inbox: "c" });
  await redis.command("HSET", WAITERS, "listening:p", 1); // it has no subscriber any more
  await redis.leave("z");
  await redis.leave("a"); // p is set aside, c gets a claim
  await redis.ask({ owner: "c", inbox: "c", ticket: 3 }); // for more than a claim
  await redis.command("DEL", WAITERS);
  await redis.ask({ owner: "d", inbox: "p" }); // ticket 1
  await redis.ask({ owner: "b", inbox: "p", ticket: 2 });
  await redis.leave("b");
  await redis.leave("d");
  await redis.ask({ owner: "e", inbox: "e" });
  assertEquals(await redis.leave("c"), DONE);
  assertEquals(await redis.holder(), valueOf("e"));
});

Deno.test("query.lua leaves the waiters of a parked inbox out once, also after its claim has lapsed", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  for (let i = 0; i < 4; i++) await redis.ask({ owner: `p${i}`, inbox: "p" });
  await redis.leave("a"); // a claim for p0
  await redis.command("HDEL", WAITERS, "inbox:p"); // its lease is over
  for (let i = 0; i < 12; i++) await redis.ask({ owner: `c${i}`, inbox: "c" }); // ticket 16 sweeps
  const [member] = await redis.command("ZRANGEBYLEX", QUEUE, "[parked ", "(parked!") as string[];
  const earlierMs = Number(member!.split(" ")[1]) - 1_000; // stands for a second
  await redis.command("ZREM", QUEUE, member!);
  await redis.command("ZADD", QUEUE, 0, `parked ${String(earlierMs).padStart(16, "0")} p`);
  await redis.command("HSET", WAITERS, "parked:p", earlierMs);
  await redis.command("DEL", LOCK); // the claim has lapsed
  await redis.ask({ owner: "c12", inbox: "c" });
  assertEquals(decodeQuery(await redis.run(QUERY, 0)).waiterCount, 12, "c1 to c12");
});

Deno.test("ask.lua returns all waiters of a parked inbox to their places when one of them asks", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  for (const owner of ["p1", "q1", "p2"]) await redis.ask({ owner, inbox: owner[0]! });
  await redis.command("HDEL", WAITERS, "inbox:p"); // its lease is over
  await redis.leave("a");
  assertEquals(await redis.holder(), valueOf("q1"));
  await redis.ask({ owner: "q2", inbox: "q" });
  const [, , , , position] = await redis.ask({ owner: "p2", inbox: "p", ticket: 3 });
  assertEquals(position, 2);
  for (const owner of ["p1", "p2", "q2"]) {
    assertEquals(await redis.leave(String(await redis.holder()).split("#")[0]!), DONE);
    assertEquals(await redis.holder(), valueOf(owner));
  }
});

Deno.test("leave.lua says whether an earlier copy of it has written a tombstone", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  const send = () => redis.run(LEAVE, valueOf("a"), 60_000, "handoff");
  assertEquals(await send(), [DONE, NOTIFIED, FINISHED]);
  assertEquals(await send(), [GONE, NOTIFIED, FINISHED, HAS_LEFT_BEFORE]);
  await redis.ask({ owner: "b" });
  assertEquals(await send(), [OTHER_OWNER, NOTIFIED, FINISHED, HAS_LEFT_BEFORE]);
});

Deno.test("leave.lua never shortens a tombstone: the copy that an earlier one refuses may still come", async () => {
  await using redis = await open();
  const end = () => redis.command("HGET", WAITERS, `tombstone:${valueOf("a")}`);
  await redis.ask({ owner: "a" });
  assertEquals(await redis.leave("a", 60_000), DONE);
  const endMs = await end();
  assertEquals(await redis.leave("a", 2_000), GONE);
  assertEquals(await end(), endMs);
  assertEquals(await redis.leave("a", 90_000), GONE);
  assert(Number(await end()) > Number(endMs));
});

Deno.test("leave.lua parks dead inboxes in bounded calls, and says when it must be sent again", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  for (let i = 0; i < 150; i++) await redis.ask({ owner: `dead${i}`, inbox: `dead${i}` });
  await redis.ask({ owner: "b", inbox: "b" });
  // In one command: the inbox of b must not lapse meanwhile.
  const inboxes = Array.from({ length: 150 }, (_, i) => `inbox:dead${i}`);
  await redis.command("HDEL", WAITERS, ...inboxes);
  const send = () => redis.run(LEAVE, valueOf("a"), 0, "handoff");
  assertEquals([await send(), await redis.holder()], [[DONE, NOTIFIED, SEARCHING], null]);
  assertEquals((await redis.ask({ owner: "c", mode: "try" }))[0], SEARCHING, "b comes first");
  assertEquals(await send(), [GONE, NOTIFIED, FINISHED]);
  assertEquals(await redis.holder(), valueOf("b"));
});

Deno.test("leave.lua sets many cut-off inboxes aside, and asks for the subscribers of each once", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  for (let i = 0; i < 150; i++) await redis.ask({ owner: `cut${i}`, inbox: `cut${i}` });
  // In one command, with new leases: no inbox must lapse meanwhile.
  const fields = Array.from({ length: 150 }, (_, i) => {
    return [`inbox:cut${i}`, Date.now() + LONG_TTL_MS, `listening:cut${i}`, 1];
  });
  await redis.command("HSET", WAITERS, ...fields.flat());
  await redis.ask({ owner: "b", inbox: "b" });
  const send = (owner: string) => redis.run(LEAVE, valueOf(owner), 0, "handoff");
  assertEquals((await send("a"))[2], SEARCHING);
  assertEquals((await send("a"))[2], SEARCHING);
  assertEquals((await send("a"))[2], FINISHED);
  assertEquals(await redis.holder(), valueOf("b"), "a waiter that can be notified comes first");
  await send("b");
  assertEquals(await redis.holder(), valueOf("cut0"), "then the first of the others");
  assertEquals((await redis.ask({ owner: "cut7", inbox: "cut7", ticket: 8 }))[4], 1);
  await redis.command("DEL", LOCK); // the claim expires
  await redis.ask({ owner: "c", mode: "try" });
  assertEquals(await redis.holder(), valueOf("cut7"), "a process that has asked is back");
});

Deno.test("ask.lua names the holder to its own process, and counts the waiters of the inbox", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  for (const owner of ["p1", "p2", "p3", "q1"]) await redis.ask({ owner, inbox: owner[0]! });
  assertEquals((await redis.ask({ owner: "p2", inbox: "p", ticket: 2 })).slice(6), [3, 1]);
  await redis.leave("a");
  const ofProcess = await redis.ask({ owner: "p2", inbox: "p", ticket: 2 });
  assertEquals(ofProcess.slice(6), [2, 1, valueOf("p1")] as unknown[]);
  await redis.run(RENEW, valueOf("p1"), 5_000);
  const confirmed = await redis.ask({ owner: "p2", inbox: "p", ticket: 2 });
  assertEquals(confirmed.slice(6), [2, 1], "a holder that has confirmed knows of its lock");
  assertEquals((await redis.ask({ owner: "q1", inbox: "q", ticket: 4 })).slice(6), [1, 1]);
  await redis.command("SET", LOCK, valueOf("stranger"), "PX", 5_000);
  assertEquals((await redis.ask({ owner: "p2", inbox: "p", ticket: 2 })).slice(6), [2, 1]);
});

Deno.test("ask.lua forgets a lapsed claim when its own process asks, so that nobody else parks that process", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "p1", inbox: "p" });
  await redis.leave("a"); // p1 gets a claim
  await redis.command("SET", LOCK, "foreign", "PX", 5_000); // it has lapsed
  assertEquals((await redis.ask({ owner: "p1", inbox: "p", ticket: 1 }))[0], QUEUED);
  await redis.command("DEL", LOCK);
  assertEquals((await redis.ask({ owner: "b", inbox: "b" }))[0], QUEUED, "p1 comes first");
  assertEquals(await redis.holder(), valueOf("p1"));
});

Deno.test("leave.lua keeps the last ticket while a claim is unconfirmed", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "frozen", inbox: "frozen" });
  await redis.leave("a"); // the first waiter gets a claim
  await redis.ask({ owner: "b", inbox: "b" });
  assertEquals(await redis.leave("b"), OTHER_OWNER, "it gives up");
  assertEquals((await redis.ask({ owner: "c", inbox: "c" }))[3], 3, "tickets go on");
  await redis.command("DEL", LOCK); // the claim has lapsed
  const [state] = await redis.ask({ owner: "frozen", inbox: "frozen", ticket: 1 });
  assertEquals(state, GRANTED);
});

Deno.test("leave.lua parks the inbox of a lapsed claim even if no other waiter has that inbox", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "frozen", inbox: "frozen" });
  await redis.leave("a");
  await redis.command("DEL", LOCK); // the claim has lapsed
  assertEquals((await redis.ask({ owner: "b", inbox: "b" }))[0], GRANTED);
  assertEquals(await redis.leave("b"), DONE);
  await redis.ask({ owner: "c", inbox: "c" });
  assertEquals((await redis.ask({ owner: "d", inbox: "d" }))[3], 4, "tickets go on");
  assertEquals((await redis.ask({ owner: "frozen", inbox: "frozen", ticket: 1 }))[4], 1);
});

Deno.test("ask.lua drops a waiter whose record was lost, and lets it come back", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  for (const owner of ["b", "c"]) await redis.ask({ owner, inbox: "i" });
  await redis.command("DEL", WAITERS);
  await redis.ask({ owner: "c", inbox: "i", ticket: 2 });
  await redis.isMortal();
  await redis.leave("a");
  assertEquals(await redis.holder(), valueOf("c"), "nothing is known of b");
  assertEquals((await redis.ask({ owner: "b", inbox: "i", ticket: 1 }))[4], 1);
  await redis.leave("c");
  assertEquals(await redis.holder(), valueOf("b"));
});

Deno.test("ask.lua gives a queue without its hash an expiry at the first ask", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  for (const owner of ["b", "c"]) await redis.ask({ owner });
  await redis.command("DEL", WAITERS); // by hand
  await redis.ask({ owner: "d" });
  await redis.isMortal();
});

Deno.test("ask.lua and renew.lua confirm a claim while memory is full", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  for (const owner of ["b", "c"]) await redis.ask({ owner });
  await redis.leave("a");
  await redis.command("CONFIG", "SET", "maxmemory", 1);
  assertEquals((await redis.ask({ owner: "b", ticket: 1 }))[0], GRANTED);
  assertEquals(
    (await redis.command("HGET", WAITERS, "holder") as string).split(" ")[0],
    "confirmed",
  );
  assertEquals(await redis.leave("b"), DONE);
  await redis.command("PEXPIRE", TOKEN, 600_000);
  assertEquals((await redis.run(RENEW, valueOf("c"), 1))[0], DONE, "nothing is to be extended");
  assertEquals(
    (await redis.command("HGET", WAITERS, "holder") as string).split(" ")[0],
    "confirmed",
  );
  await redis.command("CONFIG", "SET", "maxmemory", 0);
});

Deno.test("leave.lua hands the lock over while memory is full", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "b" });
  await redis.command("CONFIG", "SET", "maxmemory", 1);
  assertEquals(await redis.leave("a"), DONE);
  assertEquals(await redis.holder(), valueOf("b"));
  const refused = await redis.ask({ owner: "c" }).then(() => "", (error) => error.message);
  assert(refused.includes("OOM"), refused);
  assertEquals(await redis.queue(), []);
  await redis.command("CONFIG", "SET", "maxmemory", 0);
  for (const owner of ["c", "d"]) await redis.ask({ owner, inbox: owner });
  await redis.command("CONFIG", "SET", "maxmemory", 1);
  await redis.command("DEL", LOCK); // b's claim expires, so its inbox is parked
  assertEquals(await redis.leave("c"), GONE);
  assertEquals(await redis.holder(), valueOf("d"));
  await redis.command("CONFIG", "SET", "maxmemory", 0);
});

Deno.test("ask.lua removes a waiter from the queue when it takes over the lock of its owner id", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "b", nonce: FIRST_NONCE });
  await redis.ask({ owner: "b", nonce: SECOND_NONCE });
  await redis.leave("a");
  assertEquals(await redis.holder(), valueOf("b", FIRST_NONCE));
  assertEquals((await redis.ask({ owner: "b", nonce: SECOND_NONCE, ticket: 2 }))[0], GRANTED);
  assertEquals([await redis.holder(), await redis.queue()], [valueOf("b", SECOND_NONCE), []]);
});
