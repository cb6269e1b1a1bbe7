/**
 * Asks a server which resources of clients it still has. (Deno's sanitizers do not see the sockets of the
 * client package.) Also see `ensemble_traces.ts`, for several servers.
 *
 * @module
 */
import type { ZooKeeperServer } from "../servers/zookeeper.ts";
import { waitUntil } from "../servers/wait.ts";
import { CONDITION_BOUND_MS } from "../time.ts";

/** The answer of {@linkcode clientsOf} for a server without clients. */
export const NOTHING = "0 sessions, 0 znodes, 0 connections, Total watches:0";

/** Counts the sessions, ephemeral znodes, connections and watches of all clients of a server. */
export async function clientsOf(server: ZooKeeperServer): Promise<string> {
  const [dump, connections, watches] = [
    await server.fourLetterWord("dump"),
    await server.fourLetterWord("cons"),
    await server.fourLetterWord("wchs"),
  ];
  const sessions = dump.match(/^\t0x[0-9a-f]+$/gm)?.length ?? 0;
  const znodes = dump.match(/^\t\/.*$/gm)?.length ?? 0;
  const open = connections.match(/sid=0x/g)?.length ?? 0;
  return `${sessions} sessions, ${znodes} znodes, ${open} connections, ` +
    watches.trim().split("\n").at(-1);
}

/** Waits until the server has no session, ephemeral znode, connection or watch of any client. */
export async function nothingLeft(
  server: ZooKeeperServer,
  boundMs = CONDITION_BOUND_MS,
): Promise<void> {
  let seen = "";
  const isNothing = async () => (seen = await clientsOf(server)) === NOTHING;
  await waitUntil("nothing is left of any client", isNothing, boundMs).catch((error) => {
    throw new Error(`The server still keeps ${seen}`, { cause: error });
  });
}
