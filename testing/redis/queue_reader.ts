/**
 * Reads the queue of a lock on a Redis server. No other test or part knows the format of its members.
 *
 * @module
 */
import { INBOX_CHANNEL_PREFIX, type LockKeys } from "../../redis/protocol/keys.ts";
import type { RedisCommand } from "../servers/redis.ts";
import { SHARED_OWNER } from "./wire_names.ts";

/** How many waiters have a place in the queue. Those of a parked inbox keep theirs. */
export async function queueLength(
  command: RedisCommand,
  { queue }: Pick<LockKeys, "queue">,
): Promise<number> {
  return Number(await command("ZLEXCOUNT", queue, "[by_ticket ", "(by_ticket!"));
}

/** The owner values of these waiters, in order. */
export async function queuedValues(
  command: RedisCommand,
  { queue }: Pick<LockKeys, "queue">,
): Promise<string[]> {
  const members = await command("ZRANGEBYLEX", queue, "[by_ticket ", "(by_ticket!") as string[];
  return members.flatMap((member) => {
    const entry = readMember(member);
    return entry.kind === "by_ticket" ? [entry.value] : [];
  });
}

/** The owner values of the holders of a shared lock, in the order in which they expire. Some may have expired. */
export async function sharedHolders(
  command: RedisCommand,
  { lock, queue }: Pick<LockKeys, "lock" | "queue">,
): Promise<string[]> {
  const value = String(await command("GET", lock));
  if (!value.startsWith(SHARED_OWNER)) return [];
  const family = `holder ${value.slice(SHARED_OWNER.length)}`;
  const members = await command("ZRANGEBYLEX", queue, `[${family} `, `(${family}!`) as string[];
  return members.flatMap((member) => {
    const entry = readMember(member);
    return entry.kind === "holder" ? [entry.value] : [];
  });
}

const LOOK = `
  local reached, time = 0, redis.call('TIME')
  for _, member in ipairs(redis.call('ZRANGEBYLEX', KEYS[1], '[next ', '(next!')) do
    local inbox = string.match(member, '%S+$')
    local lease_end_ms = redis.call('HGET', KEYS[2], 'inbox:' .. inbox) or 0
    local heard = ARGV[1] == '0' or redis.call('PUBSUB', 'NUMSUB', ARGV[2] .. inbox)[2] > 0
    if heard and lease_end_ms / 1000 > time[1] + time[2] / 1000000 then reached = reached + 1 end
  end
  local waiting = redis.call('ZLEXCOUNT', KEYS[1], '[by_ticket ', '(by_ticket!')
  return { redis.call('GET', KEYS[3]) or '', waiting, reached }`;

/** The last token, the number of waiters, and that of the inboxes which a grant would reach. */
export interface QueueLook {
  readonly token: bigint;
  readonly waiting: number;
  readonly reached: number;
}

/** Looks at all three at once. A grant reaches an inbox that has a lease and, if those are counted, a subscriber. */
export async function lookAtQueue(
  command: RedisCommand,
  { queue, waiters, token }: LockKeys,
  countsSubscribers: boolean,
): Promise<QueueLook> {
  const args = [queue, waiters, token, countsSubscribers ? 1 : 0, INBOX_CHANNEL_PREFIX];
  const reply = await command("EVAL", LOOK, 3, ...args);
  const [last, waiting, reached] = reply as [string, number, number];
  return { token: BigInt(last), waiting, reached };
}

/** How many inboxes are parked: their processes seem to be dead or frozen. */
export async function parkedInboxes(
  command: RedisCommand,
  { queue }: Pick<LockKeys, "queue">,
): Promise<number> {
  return Number(await command("ZLEXCOUNT", queue, "[parked ", "(parked!"));
}

/** The contents of a member of the sorted set. */
export type QueueMember =
  | { readonly kind: "by_ticket"; readonly ticket: number; readonly value: string }
  | {
    readonly kind: "by_inbox";
    readonly inbox: string;
    readonly ticket: number;
    readonly value: string;
  }
  /** An inbox that is not parked, with the ticket of its first waiter. */
  | { readonly kind: "next" | "unheard"; readonly ticket: number; readonly inbox: string }
  | { readonly kind: "parked"; readonly untilMs: number; readonly inbox: string }
  | { readonly kind: "tombstone"; readonly untilMs: number; readonly value: string }
  | {
    readonly kind: "holder";
    readonly generation: string;
    readonly untilMs: number;
    readonly value: string;
  };

/**
 * Reads a member.
 *
 * @throws {Error} If it has none of the known forms.
 */
export function readMember(member: string): QueueMember {
  const byInbox = /^by_inbox (\S+) (\d{16}) (.*)$/s.exec(member);
  if (byInbox !== null) {
    const [, inbox, ticket, value] = byInbox;
    return { kind: "by_inbox", inbox: inbox!, ticket: Number(ticket), value: value! };
  }
  const holder = /^holder ([0-9a-f]{16}) (\d{16}) (.*)$/s.exec(member);
  if (holder !== null) {
    const [, generation, untilMs, value] = holder;
    return { kind: "holder", generation: generation!, untilMs: Number(untilMs), value: value! };
  }
  const [, kind, digits, rest] = /^(\w+) (\d{16}) (.*)$/s.exec(member) ?? [];
  const number = Number(digits);
  switch (kind) {
    case "by_ticket":
      return { kind, ticket: number, value: rest! };
    case "next":
    case "unheard":
      return { kind, ticket: number, inbox: rest! };
    case "parked":
      return { kind, untilMs: number, inbox: rest! };
    case "tombstone":
      return { kind, untilMs: number, value: rest! };
    default:
      throw new Error(`Unexpected member of a queue: ${member}`);
  }
}
