/**
 * Reads the queue of a lock on a Redis server. No other test or part knows the format of its members.
 *
 * @module
 */
import { type LockKeys, SHARED_OWNER } from "../../redis/protocol/keys.ts";
import type { RedisCommand } from "../servers/redis.ts";

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
