import { LockSetupError } from "../core/contract/errors.ts";
import { notSupported } from "../core/contract/options.ts";
import type { OutageBudget } from "../core/time/outage_budget.ts";
import type { RedisClient } from "./client.ts";
import type { RedisCommands } from "./protocol/commands.ts";
import { refusalOf } from "./protocol/failures.ts";
import { lockPattern, nameOfKey } from "./protocol/keys.ts";
import { SCAN_START } from "./protocol/wire.ts";

/** How often a walk begins at most. A client that cannot know its epoch returns another one each time. */
const MAX_WALKS = 4;

/** Whether names can be listed: keys must have a prefix, and a client of a cluster name its primaries. */
export function canList(client: RedisClient, keyPrefix: string): boolean {
  return keyPrefix !== "" && (!client.cluster || client.primaries !== undefined);
}

/** Throws a `NotSupportedError` if they cannot. */
export function checkListable(client: RedisClient, keyPrefix: string): void {
  if (canList(client, keyPrefix)) return;
  const why = keyPrefix === ""
    ? "without a 'keyPrefix' every key is that of a lock, so set one"
    : "its client of a cluster has no method 'primaries()'";
  throw notSupported(`Cannot list the locks of this RedisLock: ${why}`);
}

/** The names, with repetitions. Each request has its own budget: the caller decides when the next one is sent. */
export async function* listNames(
  commands: RedisCommands,
  keyPrefix: string,
  prefix: string,
  newBudget: () => OutageBudget,
): AsyncGenerator<string> {
  const { client } = commands;
  const pattern = lockPattern(keyPrefix, prefix);
  const servers = client.cluster
    ? await answer(newBudget(), () => client.primaries!())
    : [{ send: client.send.bind(client) }];
  for (const server of servers) {
    const scan = (cursor: string) =>
      answer(newBudget(), () => commands.scan(server, cursor, pattern));
    for await (const key of walk(client, scan)) {
      const name = nameOfKey(keyPrefix, key);
      if (name !== null) yield name;
    }
  }
}

/**
 * The keys of a server, from `SCAN_START` to the end. A cursor counts only in the process that has given it: when
 * the connection has changed, the walk begins again.
 */
async function* walk(
  client: RedisClient,
  scan: (cursor: string) => Promise<{ readonly cursor: string; readonly keys: readonly string[] }>,
): AsyncGenerator<string> {
  for (let walks = 1;; walks++) {
    const { epoch } = client;
    const isSame = () => client.epoch === epoch || walks === MAX_WALKS;
    let [cursor, parts] = [SCAN_START, 0];
    do {
      const part = await scan(cursor);
      yield* part.keys;
      cursor = part.cursor;
      parts++;
    } while (cursor !== SCAN_START && isSame());
    // What comes in one part needs no cursor.
    if (cursor === SCAN_START && (parts === 1 || isSame())) return;
  }
}

/** Asks until there is an answer, or the budget or its signal ends that. */
async function answer<T>(budget: OutageBudget, ask: () => Promise<T>): Promise<T> {
  for (;;) {
    budget.signal.throwIfAborted();
    try {
      return await budget.settle(ask());
    } catch (error) {
      if (refusalOf(error)?.code === "NOPERM") throw lacksRight(error);
      await budget.recover(error);
    }
  }
}

/** Only listing needs the right, so a user may have all that locks need. */
function lacksRight(cause: unknown): LockSetupError {
  const message = "Cannot list the locks: the user lacks the right to SCAN; add +scan to its ACL";
  return new LockSetupError(message, undefined, { cause });
}
