import { znodeName } from "../../zookeeper/transport/znode_names.ts";
import {
  type ConformanceZooKeeper,
  conformanceZooKeeper,
} from "../../testing/servers/zookeeper.ts";
import { observing } from "../../testing/zookeeper/observer.ts";
import { makeArena } from "../../testing/conformance/arena.ts";
import type { Harness } from "../../testing/conformance/harness.ts";
import { conformance } from "../../testing/conformance/suite.ts";

let server: ConformanceZooKeeper | undefined;

const zookeeper: Harness = {
  name: "zookeeper",
  capabilities: {
    fifo: "global",
    endsBy: "session",
    steal: false,
    attach: false,
    shared: false,
  },
  processes: true,
  ttlMs: 3_000,
  async start() {
    server = await conformanceZooKeeper();
  },
  async stop() {
    await server?.[Symbol.asyncDispose]();
  },
  arena() {
    const { connectString, rootPath: root } = server!;
    const rootPath = `${root}/${crypto.randomUUID()}`;
    return Promise.resolve(makeArena({
      spec: ({ ttlMs = 3_000, label }) => ({
        strategy: "zookeeper",
        connectString,
        rootPath,
        sessionTimeoutMs: ttlMs,
        label,
      }),
      lose: (lease) =>
        // Deletes the holder's znode, which is the first one, as an administrator could.
        observing(connectString, async (observer) => {
          const path = `${rootPath}/${znodeName(lease.name)}`;
          const [first] = await observer.children(path);
          await observer.remove(`${path}/${first}`);
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

conformance(zookeeper);
