/**
 * A list of servers that counts how often a client tries to connect.
 *
 * @module
 */
import { CONDITION_BOUND_MS } from "../time.ts";
import { waitUntil } from "../servers/wait.ts";

/** A list of servers. */
export interface CountedServers {
  /** The list, for `ZooKeeperLock`, which reads it before each round of attempts. */
  readonly list: () => string;
  /** Waits until the client has tried to connect once more, in vain, since the call. */
  triedAgain(): Promise<void>;
}

/** Makes a list with one server on this machine. */
export function countedServers({ port }: { readonly port: number }): CountedServers {
  let rounds = 0;
  return {
    list() {
      rounds++;
      return `127.0.0.1:${port}`;
    },
    async triedAgain() {
      const before = rounds;
      // The round after the next one begins when the next one has failed.
      const isTried = () => rounds >= before + 2;
      await waitUntil("the client has tried to connect again", isTried, CONDITION_BOUND_MS);
    },
  };
}
