/**
 * The object that an adapter hands out.
 *
 * @module
 */
import type { RedisClient } from "../../client.ts";

type Connections = Pick<RedisClient, "epoch" | "connectionError" | "unusable">;

/**
 * Makes an adapter, none of whose members needs its `this`: users trace one with `Object.create()`, and take
 * members out of it. A copy of it works, too, except that its `epoch` stands still.
 *
 * @param calls Must not need their `this` either.
 */
export function adapterOf(
  connections: Connections,
  calls: Omit<RedisClient, keyof Connections>,
): RedisClient {
  return {
    ...calls,
    get epoch() {
      return connections.epoch;
    },
    get connectionError() {
      return connections.connectionError;
    },
    get unusable() {
      return connections.unusable;
    },
  };
}
