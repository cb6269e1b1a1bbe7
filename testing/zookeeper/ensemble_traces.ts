/**
 * Checks that ended processes leave nothing on the servers of an ensemble: no session, connection, watch
 * or znode.
 *
 * @module
 */
import { waitUntil } from "../servers/wait.ts";
import { CONDITION_BOUND_MS } from "../time.ts";
import type { ZooKeeperServer } from "../servers/zookeeper.ts";
import { observing } from "./observer.ts";

/** Waits until nothing is left on any of the servers except the root path itself. */
export async function nothingLeft(
  servers: readonly ZooKeeperServer[],
  rootPath: string,
): Promise<void> {
  for (const server of servers) {
    let left = "";
    await waitUntil("nothing is left", async () => {
      left = await tracesOf(server);
      return left === "";
    }, CONDITION_BOUND_MS).catch((cause) => {
      throw new Error(`Left on ${server.connectString}: ${left}`, { cause });
    });
  }
  await observing(servers[0]!.connectString, async (observer) => {
    await waitUntil(
      "no znode is left",
      async () => (await observer.children(rootPath)).length === 0,
    );
  });
}

/** Returns the server's own description of what is left; "" if nothing is. */
async function tracesOf({ fourLetterWord }: ZooKeeperServer): Promise<string> {
  const [connections, dump, watches] = await Promise.all(["cons", "dump", "wchs"].map(
    (word) => fourLetterWord(word).catch(() => `no answer to ${word}`),
  ));
  const isNobodyConnected = !/sid=|no answer/.test(connections!);
  // A leader prints the number of sessions after that of its expiry sets, a follower on its own line.
  const isNoSession = /^(Session Sets \(\d+\)\/|Global Sessions)\(0\)/m.test(dump!) &&
    /^Sessions with Ephemerals \(0\)/m.test(dump!);
  const isNoWatch = /^Total watches:0$/m.test(watches!);
  return isNobodyConnected && isNoSession && isNoWatch
    ? ""
    : [connections, dump, watches].join("\n");
}
