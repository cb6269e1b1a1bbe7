/**
 * The scripts in lockstep with a reference queue, over random calls of all modes.
 */
import { assert, assertEquals } from "@std/assert";
import { ASK, LEAVE, RENEW, type Script, STEAL } from "../../../redis/protocol/scripts.ts";
import { lockKeys, ownerValue } from "../../../redis/protocol/keys.ts";
import {
  type Ask,
  askArguments,
  DONE,
  GRANTED,
  HELD,
  leaveArguments,
  QUEUED,
  SEARCHING,
  stealArguments,
} from "../../../redis/protocol/wire.ts";
import { randomFrom } from "../../../testing/processes/random.ts";
import { readMember } from "../../../testing/redis/queue_reader.ts";
import { type Limit, ReferenceQueue } from "../../../testing/redis/reference_queue.ts";
import { sha1Of } from "../../../testing/redis/digest.ts";
import { INBOX_PREFIX, SHARED_OWNER } from "../../../testing/redis/wire_names.ts";
import { type RedisServer, startRedis } from "../../../testing/servers/redis.ts";
import { connectResp } from "../../../testing/servers/resp.ts";
import { say } from "../../../testing/processes/figures.ts";

const CALLS = Deno.env.get("HOLDFAST_SOAK") ? 100_000 : 2_000;
/** Nothing expires by itself. */
const TTL_MS = 3_600_000;
const INBOXES = 5;
/** More than one batch of grants. */
const MAX_WAITERS = 150;
const LIMITS: Limit[] = [null, 0, 0, 0, 1, 2, 3, 4, 5];
/** In each fifth phase a crowd of readers asks; else requests of all modes ask, and leave sooner or later. */
const PHASE = 100;
const PHASES = 5;
const KEYS = lockKeys("lock:", "n");
const NONCE = "0".repeat(16);

type Call = [Script, ...string[]];

/** A server, the reference queue, and the calls that both get. */
async function open(server: RedisServer, random: () => number) {
  const connection = await connectResp(server.url);
  for (const { source } of [ASK, LEAVE, RENEW, STEAL]) {
    await connection.command("SCRIPT", "LOAD", source);
  }
  const valueOf = (id: number) => ownerValue(`r${id}`, NONCE);
  const idOf = (value: string) => Number(/^r(\d+)#/.exec(value)?.[1]);
  const reference = new ReferenceQueue();
  /** The inboxes and tickets of all requests that wait. */
  const places = new Map<number, { inbox: string; ticket: number }>();
  let lastToken = 0;
  let batches = 0;

  /** Sends calls at once, so that no claim or lease of an inbox ends between them, however slow the test is. */
  const send = async (...calls: Call[]): Promise<number[][]> => {
    const inboxes = reference.waiters.map(({ id }) => INBOX_PREFIX + places.get(id)!.inbox);
    const alive = [...new Set(inboxes)].flatMap((field) => [field, Date.now() + TTL_MS]);
    const commands = calls.map(([script, ...args]) => [
      ...["EVALSHA", script.sha1, 4, KEYS.lock, KEYS.queue, KEYS.waiters, KEYS.token],
      ...args,
    ]);
    if (alive.length === 0) return await connection.pipeline(commands) as number[][];
    const replies = await connection.pipeline([["HSET", KEYS.waiters, ...alive], ...commands]);
    return replies.slice(1) as number[][];
  };
  const ask = (id: number, limit: Limit, mode: Ask["mode"]): Call => {
    const { inbox, ticket } = places.get(id)!;
    const sender = { id: inbox, isCountable: false };
    const terms = { value: valueOf(id), ttlMs: TTL_MS, mode, limit, inbox: sender, ticket };
    return [ASK, ...askArguments(terms, 0)];
  };
  const leave = (id: number): Call => [LEAVE, ...leaveArguments(valueOf(id), 0, true, false)];
  const renew = (id: number): Call => [RENEW, valueOf(id), String(TTL_MS)];

  /**
   * Sends a call until its search is over. Those that the reference admits confirm their claims.
   * Returns its first answer, and the last one.
   */
  const call = async (wanted: Call, admitted: number[]): Promise<[number[], number[]]> => {
    const progressAt = wanted[0] === LEAVE ? 2 : 0;
    let first: number[] | undefined;
    for (;;) {
      const [reply, ...renewals] = await send(wanted, ...admitted.map(renew));
      first ??= reply!;
      if (reply![progressAt] === SEARCHING) {
        batches++;
        continue;
      }
      // An exclusive ask does not go on with shared grants: anybody else's does.
      if (renewals.some(([state]) => state !== DONE)) await call(leave(0), admitted);
      return [first, reply!];
    }
  };
  const enter = (id: number, inbox = `-${Math.floor(random() * INBOXES)}`) => {
    places.set(id, { inbox, ticket: 0 });
  };
  const learnToken = (token: number, mayBeTheSame: boolean) => {
    assert(token > lastToken || (mayBeTheSame && token === lastToken), `${token}, ${lastToken}`);
    lastToken = token;
  };
  const check = async () => {
    const [value, token, members] = await connection.pipeline([
      ["GET", KEYS.lock],
      ["GET", KEYS.token],
      ["ZRANGE", KEYS.queue, 0, -1],
    ]) as [string | null, string | null, string[]];
    const entries = members.map(readMember);
    const holders = value === null || value.startsWith(SHARED_OWNER) ? [] : [idOf(value)];
    const queued: number[] = [];
    for (const entry of entries) {
      if (entry.kind === "by_ticket") queued.push(idOf(entry.value));
      if (entry.kind !== "holder" || value !== SHARED_OWNER + entry.generation) continue;
      holders.push(idOf(entry.value));
    }
    const byNumber = (a: number, b: number) => a - b;
    assertEquals(holders.sort(byNumber), [...reference.holders.keys()].sort(byNumber));
    assertEquals(queued, reference.waiters.map(({ id }) => id));
    lastToken = Math.max(lastToken, Number(token ?? 0));
  };
  const close = () => connection[Symbol.dispose]();
  return {
    ...{ connection, reference, places, valueOf, send, ask, leave, renew, call, enter },
    ...{ learnToken, check, batches: () => batches, [Symbol.dispose]: close },
  };
}

type Lockstep = Awaited<ReturnType<typeof open>>;

function isCrowded(id: number): boolean {
  return Math.floor(id / PHASE) % PHASES === 1;
}

/** A new request, of a mode and limit by chance. */
async function askAnew(lockstep: Lockstep, id: number, random: () => number): Promise<string> {
  const { reference, places, ask, call, enter, learnToken } = lockstep;
  const crowd = id % PHASE === 0 ? null : 0; // a writer, and readers behind it
  const limit = isCrowded(id) ? crowd : LIMITS[Math.floor(random() * LIMITS.length)]!;
  const mode = random() < 0.1 || reference.waiters.length > MAX_WAITERS ? "try" : "wait";
  enter(id);
  const isGranted = reference.ask(id, limit, mode === "wait");
  const [, reply] = await call(ask(id, limit, mode), []);
  assertEquals(reply[0], isGranted ? GRANTED : mode === "try" ? HELD : QUEUED);
  if (isGranted) learnToken(reply[3]!, false);
  if (reply[0] === QUEUED) {
    places.get(id)!.ticket = reply[3]!;
    assertEquals([reply[4], reply[5]], Array(2).fill(reference.waiters.length));
  }
  return `${mode} ${limit === null ? "exclusive" : "shared"} ${isGranted ? "granted" : "refused"}`;
}

/** A call of a request that the server knows, or somebody else's. Returns what it was; "" for nothing. */
async function act(lockstep: Lockstep, id: number, random: () => number): Promise<string> {
  const { reference, connection, valueOf, send, ask, leave, renew, call, learnToken } = lockstep;
  const pick = <T>(from: readonly T[]) => from[Math.floor(random() * from.length)];
  const holder = pick([...reference.holders.keys()]);
  const waiter = pick(reference.waiters);
  const chance = random();
  if (chance < 0.6 && holder !== undefined) {
    const [[state]] = await call(leave(holder), reference.leave(holder));
    assertEquals(state, DONE);
    return "release";
  }
  if (chance < 0.72 && waiter !== undefined) {
    await call(leave(waiter.id), reference.leave(waiter.id));
    return "abort";
  }
  if (chance < 0.8 && holder !== undefined) {
    assertEquals(await send(renew(holder)), [[DONE, TTL_MS]]);
    return "renewal";
  }
  if (chance < 0.86 && waiter !== undefined) {
    const [, reply] = await call(ask(waiter.id, waiter.limit, "wait"), []);
    assertEquals([reply[0], reply[4]], [QUEUED, reference.waiters.indexOf(waiter) + 1]);
    return "repeated ask of a waiter";
  }
  if (chance < 0.92 && holder !== undefined) {
    const [, reply] = await call(ask(holder, reference.holders.get(holder)!, "wait"), []);
    assertEquals(reply[0], GRANTED);
    learnToken(reply[3]!, true);
    return "repeated ask of a holder";
  }
  const old = [...reference.holders.keys()];
  if (chance < 0.95) { // the lock key is lost, and then any call grants it
    await connection.command("DEL", KEYS.lock);
    reference.holders.clear();
    await call(leave(0), reference.admit());
  } else if (chance < 0.96 && old.length > 0) {
    const digest = sha1Of(String(await connection.command("GET", KEYS.lock)));
    lockstep.enter(id);
    reference.steal(id);
    const terms = { value: valueOf(id), ttlMs: TTL_MS, victimDigest: digest };
    const [reply] = await send([STEAL, ...stealArguments(terms, 0)]);
    assertEquals(reply![0], GRANTED);
    learnToken(reply![3]!, false);
  } else return "";
  for (const [state] of await send(...old.map(renew))) assert(state !== DONE, "it is not held");
  return chance < 0.95 ? "foreign DEL" : "steal";
}

Deno.test(`ask.lua, leave.lua, renew.lua and steal.lua keep up with a reference queue of all modes over ${CALLS} calls`, async () => {
  const random = randomFrom("Calls of all modes");
  await using server = await startRedis();
  using lockstep = await open(server, random);
  const { reference, call, leave, check } = lockstep;
  const counts: Record<string, number> = {};
  for (let id = 1; id <= CALLS; id++) {
    const what = isCrowded(id) || random() < 0.4
      ? await askAnew(lockstep, id, random)
      : await act(lockstep, id, random);
    if (what !== "") counts[what] = (counts[what] ?? 0) + 1;
    await check();
  }
  say(`${CALLS} calls, ${lockstep.batches()} of them sent again: ${JSON.stringify(counts)}`);
  while (reference.holders.size > 0) {
    const [id] = reference.holders.keys();
    await call(leave(id!), reference.leave(id!));
  }
  await check();
  assertEquals(reference.waiters, []);
});
