import type { RedisClient } from "../../client.ts";

/**
 * Makes an adapter, none of whose members needs its `this`, nor may those of `calls`: users trace one with
 * `Object.create()`, and take members out of it. A copy of it works, too, except that its `epoch` stands still.
 */
export function adapterOf(
  connections: Pick<RedisClient, "epoch" | "connectionError" | "unusable">,
  calls: Omit<RedisClient, keyof typeof connections>,
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
