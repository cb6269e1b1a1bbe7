/**
 * Looks at a queue while crowds are served after it was lost: when all waiters are back, and the grants after
 * that. From then on their order must be kept.
 *
 * @module
 */
import { INBOX_CHANNEL_PREFIX, type LockKeys } from "../../redis/protocol/keys.ts";
import type { RedisCommand } from "../servers/redis.ts";
import { pause } from "../servers/wait.ts";
import type { LineGrant } from "./waiting_lines.ts";

/** A shorter time would slow down the server that is measured. */
const EVERY_MS = 10;

/**
 * Returns the last token, the number of waiters, and that of the inboxes which a grant would reach: those that
 * have a lease, and a subscriber if ARGV[1] is 1.
 */
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

interface Look {
  readonly token: bigint;
  readonly waiting: number;
  readonly reached: number;
}

/** Looks again and again, from now until its disposal. */
export class QueueLooks implements AsyncDisposable {
  readonly #looks: Look[] = [];
  readonly #looking: Promise<void>;
  #isOver = false;

  /** @param countsSubscribers False in a cluster, where a node does not know all subscribers. */
  constructor(command: RedisCommand, keys: LockKeys, countsSubscribers: boolean) {
    this.#looking = this.#look(command, keys, countsSubscribers);
  }

  async #look(command: RedisCommand, keys: LockKeys, counts: boolean): Promise<void> {
    const { queue, waiters, token } = keys;
    const args = [queue, waiters, token, counts ? 1 : 0, INBOX_CHANNEL_PREFIX];
    while (!this.#isOver) {
      const reply = await command("EVAL", LOOK, 3, ...args).catch(() => null);
      if (reply !== null) {
        const [last, waiting, reached] = reply as [string, number, number];
        this.#looks.push({ token: BigInt(last), waiting, reached });
      }
      // No condition: the looks are spread over all of the time.
      await pause(EVERY_MS);
    }
  }

  /**
   * The grants of each line after the first look at which all that were served later were in the queue, and all
   * their inboxes were reached. None if the last one was served before that.
   */
  whenAllWait(lines: readonly (readonly LineGrant[])[]): LineGrant[][] {
    const after = (token: bigint) =>
      lines.map((grants) => grants.filter((grant) => BigInt(grant.token) > token));
    const all = this.#looks.find(({ token, waiting, reached }) => {
      const left = after(token);
      return waiting === left.flat().length && reached === left.filter(isServed).length;
    });
    return all === undefined ? lines.map(() => []) : after(all.token);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true;
    await this.#looking;
  }
}

function isServed({ length }: readonly LineGrant[]): boolean {
  return length > 0;
}
