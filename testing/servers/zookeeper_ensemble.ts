/**
 * Starts ZooKeeper ensembles for tests: three servers on this machine.
 *
 * @module
 */

import { type OwnSource, serverSource } from "./find.ts";
import { findLocalZooKeeper } from "./find_local.ts";
import { freePort } from "./ports.ts";
import { type FaultProxy, startProxy } from "./proxy.ts";
import { waitUntil } from "./wait.ts";
import {
  type ServerTls,
  startZooKeeper,
  WORD_BOUNDS_MS,
  type ZooKeeperOptions,
  type ZooKeeperServer,
} from "./zookeeper.ts";
import { scaled } from "../time.ts";

const IDS = [1, 2, 3] as const;
/** Long enough for a machine that runs other tests at the same time. */
const INIT_TICKS = scaled(100);
const SYNC_TICKS = scaled(30);
/** How long in ms a new leader may take until it listens. */
const LISTEN_BOUND_MS = scaled(1_000);

type Id = typeof IDS[number];

/** Settings of an ensemble. */
export interface EnsembleOptions extends ZooKeeperOptions {
  /**
   * How many ticks of silence a follower and its leader tolerate before they disconnect.
   *
   * @default {30}
   */
  readonly syncLimitTicks?: number;
  /** Whether members can be cut off from each other: then their traffic goes through this process. */
  readonly canCutOff?: boolean;
  /** Opens a second port of each member, with TLS. */
  readonly tlsOf?: (id: Id) => ServerTls;
}

/** One of the servers; it can be killed, paused and restarted like a standalone server. */
export interface EnsembleMember extends ZooKeeperServer {
  readonly id: Id;
}

/** An ensemble that belongs to one test. */
export interface ZooKeeperEnsemble extends AsyncDisposable {
  readonly members: readonly EnsembleMember[];
  /** The addresses of all members. */
  readonly connectString: string;
  /** The current leader; waits until there is one. */
  leader(): Promise<EnsembleMember>;
  /** The current followers; waits until there is a leader. */
  followers(): Promise<EnsembleMember[]>;
  /** The mode that a member reports, such as `"leader"`; null while it does not serve. */
  modeOf(member: EnsembleMember): Promise<string | null>;
  /** Resolves when every member serves. */
  ready(): Promise<void>;
  /**
   * Swallows the traffic between a member and the others without closing connections. Until
   * `syncLimitTicks` have passed, the member keeps serving its clients with stale data.
   */
  cutOff(member: EnsembleMember): void;
  /** Ends `cutOff()`: closes the connections that were cut off, so that the member reconnects. */
  rejoin(member: EnsembleMember): void;
}

/** Why no ensemble can be started on this machine; `undefined` if one can. */
export async function zooKeeperEnsembleSkip(): Promise<string | undefined> {
  if (await localSource() !== undefined) return undefined;
  return "the servers of an ensemble must reach each other, so ZooKeeper must be installed here";
}

/** Starts one server with TLS. ZooKeeper must be installed: a container has no access to its files. */
export async function startSecureZooKeeper(
  tls: ServerTls,
  options: ZooKeeperOptions = {},
): Promise<ZooKeeperServer> {
  const source = await localSource();
  if (source === undefined) throw new Error("Cannot start a server with TLS: install ZooKeeper");
  return await startZooKeeper({ ...options, source, tls });
}

/** Starts three servers and waits until all of them serve. */
export async function startZooKeeperEnsemble(
  options: EnsembleOptions = {},
): Promise<ZooKeeperEnsemble> {
  const source = await localSource();
  if (source === undefined) throw new Error("Cannot start an ensemble: install ZooKeeper");
  await using stack = new AsyncDisposableStack();
  const links = new Links(options.canCutOff === true);
  stack.use(links);
  const starts = await Promise.allSettled(IDS.map(async (id) => {
    const tls = options.tlsOf && { tls: options.tlsOf(id) };
    const extra = extraOf(id, links, options);
    const server = await startZooKeeper({ ...options, ...tls, source, extra });
    return stack.use(Object.assign(server, { id }));
  }));
  const members = starts.map((start) => {
    if (start.status === "rejected") throw start.reason;
    return start.value;
  });
  const ensemble = control(members, links, stack.move());
  try {
    await ensemble.ready();
  } catch (error) {
    await ensemble[Symbol.asyncDispose]();
    throw error;
  }
  return ensemble;
}

/** Only local servers work: a container announces an address that the others cannot reach. */
async function localSource(): Promise<OwnSource | undefined> {
  const { own } = await serverSource("zookeeper");
  if (own?.kind === "local") return own;
  const local = await findLocalZooKeeper();
  return local && { kind: "local", command: local.command };
}

/** The links between the servers. Followers connect to the quorum port of the leader. */
class Links implements AsyncDisposable {
  readonly #quorumPorts = IDS.map(() => freePort());
  readonly #electionPorts = IDS.map(() => freePort());
  readonly #proxies: { readonly between: readonly [Id, Id]; readonly proxy: FaultProxy }[] = [];

  constructor(canCut: boolean) {
    for (const from of canCut ? IDS : []) {
      for (const to of IDS.filter((id) => id !== from)) {
        // A follower whose connection is closed because the leader does not listen yet would lose a
        // whole `initLimit`, so the proxy retries.
        const port = this.#quorumPorts[to - 1]!;
        const target = { hostname: "127.0.0.1", port, connectForMs: LISTEN_BOUND_MS };
        this.#proxies.push({ between: [from, to], proxy: startProxy(target) });
      }
    }
  }

  /** The `server.N` settings as one of the servers gets them. */
  settingsFor(id: Id): Record<string, string> {
    return Object.fromEntries(IDS.map((to) => {
      const link = this.#proxies.find(({ between: [from, other] }) => from === id && other === to);
      const port = link?.proxy.port ?? this.#quorumPorts[to - 1];
      return [`server.${to}`, `127.0.0.1:${port}:${this.#electionPorts[to - 1]}`];
    }));
  }

  /** The links of a server, in both directions. */
  of(id: Id): FaultProxy[] {
    if (this.#proxies.length === 0) {
      throw new Error("Cannot cut off a member: start the ensemble with 'canCutOff'");
    }
    return this.#proxies.filter(({ between }) => between.includes(id)).map(({ proxy }) => proxy);
  }

  async [Symbol.asyncDispose]() {
    for (const { proxy } of this.#proxies) await proxy[Symbol.asyncDispose]();
  }
}

function extraOf(id: Id, links: Links, { syncLimitTicks = SYNC_TICKS }: EnsembleOptions) {
  return {
    settings: { initLimit: INIT_TICKS, syncLimit: syncLimitTicks, ...links.settingsFor(id) },
    files: { "data/myid": String(id) },
  };
}

function control(
  members: readonly EnsembleMember[],
  links: Links,
  stack: AsyncDisposableStack,
): ZooKeeperEnsemble {
  const modes = () => Promise.all(members.map(modeOf));
  /** The members in this mode, once there are both a leader and a follower. */
  const inMode = async (wanted: string) => {
    let found: (string | null)[] = [];
    await waitUntil("there is a leader", async () => {
      found = await modes();
      return found.includes("leader") && found.includes("follower");
    });
    return members.filter((_, i) => found[i] === wanted);
  };
  return {
    members,
    connectString: members.map(({ connectString }) => connectString).join(","),
    leader: async () => (await inMode("leader"))[0]!,
    followers: () => inMode("follower"),
    modeOf,
    ready: () => waitUntil("all members serve", async () => !(await modes()).includes(null)),
    cutOff: ({ id }) => links.of(id).forEach((proxy) => proxy.blackHole("both")),
    rejoin: ({ id }) => links.of(id).forEach((proxy) => proxy.heal()),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

async function modeOf(member: EnsembleMember): Promise<string | null> {
  const answer = await member.fourLetterWord("srvr", WORD_BOUNDS_MS).catch(() => "");
  return /^Mode: (.*)$/m.exec(answer)?.[1] ?? null;
}
