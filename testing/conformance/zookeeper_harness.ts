/**
 * The harness that runs the conformance suite on ZooKeeper.
 *
 * @module
 */
import type { ZooKeeperTls } from "../../zookeeper/mod.ts";
import { znodeName } from "../../zookeeper/connection/znode_names.ts";
import type { ConformanceZooKeeper } from "../servers/zookeeper.ts";
import { observing } from "../zookeeper/observer.ts";
import { KEPT_TTL_MS } from "../time.ts";
import { makeArena } from "./arena.ts";
import type { Harness } from "./harness.ts";

/** The server, and how the clients under test connect to it. */
export interface HarnessServer extends ConformanceZooKeeper {
  /** Where the clients connect, if not to `connectString`. */
  readonly secureConnectString?: string;
  readonly tls?: ZooKeeperTls;
}

/** ZooKeeper with one kind of connection. */
export function zooKeeperHarness(
  name: string,
  startServer: () => Promise<HarnessServer>,
  skip?: string,
): Harness {
  let server: HarnessServer | undefined;
  return {
    name,
    capabilities: {
      fifo: "global",
      endsBy: "session",
      steal: false,
      attach: false,
      shared: true,
      limit: false,
      list: true,
    },
    processes: true,
    ttlMs: KEPT_TTL_MS,
    knowsWaitersOfTry: true,
    skip,
    async start() {
      server = await startServer();
    },
    async stop() {
      await server?.[Symbol.asyncDispose]();
    },
    arena() {
      const { connectString, secureConnectString, tls, rootPath: root } = server!;
      const rootPath = `${root}/${crypto.randomUUID()}`;
      return Promise.resolve(makeArena({
        spec: ({ ttlMs = KEPT_TTL_MS, label, disposeTimeoutMs }) => ({
          strategy: "zookeeper",
          connectString: secureConnectString ?? connectString,
          rootPath,
          sessionTimeoutMs: ttlMs,
          label,
          disposeTimeoutMs,
          ...tls && { tls },
        }),
        lose: (lease) =>
          // Deletes the holder's znode, which is the first one, as an administrator could.
          observing(connectString, async (observer) => {
            const path = `${rootPath}/${znodeName(lease.name)}`;
            const [first] = await observer.children(path);
            if (first === undefined) return; // it is lost already
            await observer.remove(`${path}/${first}`).catch((error) => {
              if (error.name !== "NO_NODE") throw error; // else it was lost just now
            });
          }),
        // The znodes of locks may stay for a while, but they must have no children.
        residue: () =>
          observing(connectString, async (observer) => {
            const parents = await observer.children(rootPath);
            const below = parents.map((parent) => observer.children(`${rootPath}/${parent}`));
            return (await Promise.all(below)).flat();
          }),
        close: () => Promise.resolve(),
      }));
    },
  };
}
