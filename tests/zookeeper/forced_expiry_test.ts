/**
 * The holder's session ends at the servers while many wait, in several processes.
 */
import { assert, assertEquals, assertLess } from "@std/assert";
import { median, say } from "../../testing/processes/figures.ts";
import { type Puppet, type PuppetEvent, startPuppet } from "../../testing/processes/puppets.ts";
import { type FaultProxy, startProxy } from "../../testing/servers/proxy.ts";
import {
  type EnsembleMember,
  startZooKeeperEnsemble,
  type ZooKeeperEnsemble,
  zooKeeperEnsembleSkip,
} from "../../testing/servers/zookeeper_ensemble.ts";
import { nowUs } from "../../testing/processes/clock.ts";
import { type Observer, observing } from "../../testing/zookeeper/observer.ts";
import { nothingLeft } from "../../testing/zookeeper/traces.ts";
import { newRoot } from "../../testing/zookeeper/waiter.ts";
import { endSession, type SessionKey, sessionKeys } from "../../testing/zookeeper/wire.ts";

/** The soak runs more. */
const RUNS = Deno.env.get("HOLDFAST_SOAK") ? 20 : 1;
const PROCESSES = 4;
const WAITERS = 20;
/** So that the servers soon let a session expire that they hear nothing of. */
const SHORT_TIMEOUT_MS = 2_000;
/** So that the holder's own clock does not end its lease first. */
const LONG_TIMEOUT_MS = 40_000;
const HOLDER = 0;
/** "At once", on however busy a machine. */
const AT_ONCE_MS = 5_000;

const skip = await zooKeeperEnsembleSkip();
const ignore = skip !== undefined;
const note = skip ? ` [${skip}]` : "";

/** What a test does to the holder's session. */
interface Victim {
  readonly proxy: FaultProxy;
  readonly key: SessionKey;
  /** A server that the holder is not connected to. */
  readonly elsewhere: EnsembleMember;
}

interface Outcome {
  readonly lost: PuppetEvent;
  readonly next: PuppetEvent;
  /** When the holder's znode was seen to be gone, in µs. */
  readonly goneUs: number;
}

/** One holder, and 20 that queue one after the other; the first process holds, through the proxy. */
async function lineUp(puppets: readonly Puppet[]): Promise<void> {
  await puppets[0]!.take({ id: HOLDER, name: "n", holdMs: 600_000 });
  await puppets[0]!.event(HOLDER, "granted");
  for (let id = 1; id <= WAITERS; id++) {
    const puppet = puppets[id % PROCESSES]!;
    await puppet.take({ id, name: "n", holdMs: 5 });
    await puppet.event(id, "waits");
  }
}

/** When a znode was first seen to be gone. */
async function goneAt(observer: Observer, path: string): Promise<number> {
  while (await observer.exists(path));
  return nowUs();
}

async function run(
  ensemble: ZooKeeperEnsemble,
  sessionTimeoutMs: number,
  end: (victim: Victim) => Promise<void>,
): Promise<Outcome> {
  const rootPath = newRoot();
  const [server, elsewhere] = await ensemble.followers();
  await using proxy = startProxy(server!);
  const keys: SessionKey[] = [];
  proxy.onReply = sessionKeys((key) => void keys.push(key));
  const connectStrings = Array.from({ length: PROCESSES }, () => ensemble.connectString);
  connectStrings[0] = `127.0.0.1:${proxy.port}`;
  await using stack = new AsyncDisposableStack();
  const puppets = connectStrings.map((connectString) => {
    const place = { strategy: "zookeeper", connectString, rootPath } as const;
    return stack.use(startPuppet({ spec: { ...place, sessionTimeoutMs } }));
  });
  await lineUp(puppets);
  const goneUs = await observing(elsewhere!.connectString, async (observer) => {
    const [holder] = await observer.children(`${rootPath}/n`);
    const gone = goneAt(observer, `${rootPath}/n/${holder}`);
    await end({ proxy, key: keys[0]!, elsewhere: elsewhere! });
    return await gone;
  });
  const lost = await puppets[0]!.event(HOLDER, "lost");
  await puppets[1]!.event(1, "granted");
  proxy.heal();
  const codes = await Promise.all(puppets.map((puppet) => puppet.finish()));
  assertEquals(codes, puppets.map(() => 0));
  const served = checkOrder(puppets);
  await nothingLeft(ensemble.members, rootPath);
  return { lost, next: served[0]!, goneUs };
}

/** Everybody was served once, survivors in their order, one at a time; their grants. */
function checkOrder(puppets: readonly Puppet[]): PuppetEvent[] {
  const events = puppets.flatMap(({ events }) => events).sort((a, b) => a.atUs - b.atUs);
  const grants = events.filter(({ id, what }) => what === "granted" && id !== HOLDER);
  assertEquals(grants.length, WAITERS);
  const ids = grants.map(({ id }) => id);
  const isSurvivor = (id: number) => id % PROCESSES !== 0;
  const survivors = [...ids].filter(isSurvivor);
  assertEquals(ids.slice(0, survivors.length), survivors, "who lost its place queues again");
  assertEquals(survivors, [...survivors].sort((a, b) => a - b), "the order of the survivors");
  const tokens = events.flatMap(({ token }) => token === undefined ? [] : [BigInt(token)]);
  assertEquals(tokens, [...tokens].sort((a, b) => a < b ? -1 : 1), "tokens grow");
  // Grant, leave, grant, leave: nobody was granted while another one of them held.
  const turns = events.filter(({ id, what }) => id !== HOLDER && what !== "waits");
  for (const [i, { id, what }] of turns.entries()) {
    assertEquals(what, i % 2 === 0 ? "granted" : "leaves");
    if (i % 2 === 1) assertEquals(id, turns[i - 1]!.id, "two at once");
  }
  return grants;
}

Deno.test({
  name:
    `ZooKeeperLock loses its lease before the next waiter gets it at once when the holder's session expires${note}`,
  ignore,
  async fn() {
    await using ensemble = await startZooKeeperEnsemble();
    const [delaysMs, marginsMs]: number[][] = [[], []];
    for (let i = 0; i < RUNS; i++) {
      const { lost, next, goneUs } = await run(ensemble, SHORT_TIMEOUT_MS, ({ proxy }) => {
        proxy.blackHole("both");
        return Promise.resolve();
      });
      assertEquals(lost.reason, "session-expired");
      assertLess(lost.atUs, next.atUs, "the holder should give up before the next one is granted");
      marginsMs!.push((next.atUs - lost.atUs) / 1_000);
      delaysMs!.push((next.atUs - goneUs) / 1_000);
    }
    assertLess(Math.max(...delaysMs!), AT_ONCE_MS);
    say(
      `${RUNS} sessions expired: loss to next grant ${Math.min(...marginsMs!)} ms or more; ` +
        `znode gone to next grant ${median(delaysMs!)} ms usual, ${Math.max(...delaysMs!)} most`,
    );
  },
});

Deno.test({
  name:
    `ZooKeeperLock loses its lease, and waiters keep their order, when another client closes the session${note}`,
  ignore,
  async fn() {
    await using ensemble = await startZooKeeperEnsemble();
    const [delaysMs, overlapsMs]: number[][] = [[], []];
    for (let i = 0; i < RUNS; i++) {
      let startUs = 0;
      const { lost, next } = await run(ensemble, LONG_TIMEOUT_MS, async ({ key, elsewhere }) => {
        startUs = nowUs();
        await endSession(elsewhere.port, key);
      });
      // Nothing but its server can tell it, so this is a race with the next one's news.
      assert(["session-expired", "stolen"].includes(lost.reason!));
      assertLess(
        (lost.atUs - startUs) / 1_000,
        LONG_TIMEOUT_MS / 2,
        "long before its own deadline",
      );
      overlapsMs!.push((lost.atUs - next.atUs) / 1_000);
      delaysMs!.push((next.atUs - startUs) / 1_000);
    }
    assertLess(Math.max(...delaysMs!), AT_ONCE_MS);
    say(
      `${RUNS} sessions closed: order to next grant ${median(delaysMs!)} ms usual, ` +
        `${Math.max(...delaysMs!)} most; the holder learns of it ${median(overlapsMs!)} ms ` +
        `after that grant, ${Math.max(...overlapsMs!)} at most`,
    );
  },
});
