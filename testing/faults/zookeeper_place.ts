/**
 * The place of `ZooKeeperLock`: three servers, and for each worker a proxy to each of them.
 *
 * @module
 */
// Paces a workload: each fault of a member lasts for a random part of a session.
import { type FaultProxy, startProxy } from "../servers/proxy.ts";
import { startZooKeeperEnsemble, type ZooKeeperEnsemble } from "../servers/zookeeper_ensemble.ts";
import { nothingLeft } from "../zookeeper/ensemble_traces.ts";
import { endSession, type SessionKey, sessionKeys } from "../zookeeper/wire.ts";
import { pause } from "../servers/wait.ts";
import { scaled } from "../time.ts";
import type { Residue } from "./history.ts";
import type { FaultTable, Place, Stage } from "./place.ts";
import { anyWorker } from "./worker_faults.ts";

const SESSION_TIMEOUT_MS = scaled(1_000);
const ROOT_PATH = "/holdfast-faults";
/** A follower tolerates silence for this many ticks of 100 ms: longer than its clients' sessions live. */
const SYNC_LIMIT_TICKS = scaled(40);

/** Starts the servers and the proxies. */
export async function zooKeeperPlace(workers: number): Promise<Place> {
  await using stack = new AsyncDisposableStack();
  const options = { canCutOff: true, syncLimitTicks: SYNC_LIMIT_TICKS };
  const ensemble = stack.use(await startZooKeeperEnsemble(options));
  const links = Array.from(
    { length: workers },
    () => ensemble.members.map((member) => stack.use(startProxy(member))),
  );
  const disposal = stack.move();
  return {
    ...{ strategy: "zookeeper", fifo: true, ttlMs: SESSION_TIMEOUT_MS, skipped: {} },
    specFor: (worker) => ({
      ...{ strategy: "zookeeper", rootPath: ROOT_PATH } as const,
      connectString: links[worker]!.map(({ port }) => `127.0.0.1:${port}`).join(","),
      sessionTimeoutMs: SESSION_TIMEOUT_MS,
    }),
    linksOf: (worker) => links[worker]!,
    faults: faultsOf(ensemble, links),
    heal: () => ensemble.ready(),
    residue: () => residueOf(ensemble),
    [Symbol.asyncDispose]: () => disposal.disposeAsync(),
  };
}

function faultsOf(
  ensemble: ZooKeeperEnsemble,
  links: readonly (readonly FaultProxy[])[],
): FaultTable {
  const nameOf = ({ id }: { id: number }) => `server ${id}`;
  return {
    "leader-kill": {
      async run({ random }) {
        const leader = await ensemble.leader();
        await leader.kill();
        await pause(random() * SESSION_TIMEOUT_MS * 2);
        await leader.restart();
        await ensemble.ready();
        return nameOf(leader);
      },
    },
    "member-freeze": {
      async run({ random, pick }) {
        const member = pick(ensemble.members);
        await member.pause();
        await pause(random() * SESSION_TIMEOUT_MS * 2);
        await member.resume();
        await ensemble.ready();
        return nameOf(member);
      },
    },
    "follower-cut-off": {
      async run({ random, pick }) {
        const follower = pick(await ensemble.followers());
        ensemble.cutOff(follower);
        await pause(random() * SESSION_TIMEOUT_MS * 3);
        ensemble.rejoin(follower);
        await ensemble.ready();
        return nameOf(follower);
      },
    },
    "session-expiry": {
      async run(stage) {
        const worker = anyWorker(stage);
        links[worker]!.forEach((link) => link.blackHole("both"));
        await pause(SESSION_TIMEOUT_MS * (1.5 + stage.random()));
        links[worker]!.forEach((link) => link.heal());
        return `link of ${stage.fleet.nameOf(worker)}`;
      },
    },
    "session-closed": {
      destructive: true,
      run: (stage) => closeSession(ensemble, links, stage),
    },
  };
}

/** Closes a worker's session at a server without the worker's knowledge. */
async function closeSession(
  ensemble: ZooKeeperEnsemble,
  links: readonly (readonly FaultProxy[])[],
  stage: Stage,
): Promise<string> {
  const worker = anyWorker(stage);
  const keys: SessionKey[] = [];
  for (const link of links[worker]!) {
    link.onReply = sessionKeys((key) => keys.push(key));
    link.cutAll(); // The reply to the next connection shows the key.
  }
  for (let i = 0; i < 100 && keys.length === 0; i++) await pause(10);
  for (const link of links[worker]!) link.onReply = undefined;
  const key = keys[0];
  if (key !== undefined && key.id !== 0n) {
    await endSession(stage.pick(ensemble.members).port, key).catch(() => {});
  }
  await pause(100);
  return `session of ${stage.fleet.nameOf(worker)}`;
}

async function residueOf(ensemble: ZooKeeperEnsemble): Promise<Residue[]> {
  try {
    await nothingLeft(ensemble.members, ROOT_PATH);
    return [{ what: "sessions, connections, watches and znodes", count: 0 }];
  } catch (error) {
    const cause = (error as Error).message;
    return [{ what: `kind of session, connection, watch or znode (${cause})`, count: 1 }];
  }
}
