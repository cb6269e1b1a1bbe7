/**
 * Looks at a queue while crowds are served after it was lost: when all waiters are back, and the grants after
 * that. From then on their order must be kept.
 *
 * @module
 */
import type { LockKeys } from "../../redis/protocol/keys.ts";
import { lookAtQueue, type QueueLook } from "../redis/queue_reader.ts";
import type { RedisCommand } from "../servers/redis.ts";
import { pause } from "../servers/wait.ts";
import type { LineGrant } from "./waiting_lines.ts";

/** A shorter time would slow down the server that is measured. */
const EVERY_MS = 10;

/** Looks again and again, from now until its disposal. */
export class QueueLooks implements AsyncDisposable {
  readonly #looks: QueueLook[] = [];
  readonly #looking: Promise<void>;
  #isOver = false;

  /** @param countsSubscribers False in a cluster, where a node does not know all subscribers. */
  constructor(command: RedisCommand, keys: LockKeys, countsSubscribers: boolean) {
    this.#looking = this.#look(command, keys, countsSubscribers);
  }

  async #look(command: RedisCommand, keys: LockKeys, counts: boolean): Promise<void> {
    while (!this.#isOver) {
      const look = await lookAtQueue(command, keys, counts).catch(() => null);
      if (look !== null) this.#looks.push(look);
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
