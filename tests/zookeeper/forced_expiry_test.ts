/**
 * The holder's session ends at the servers while 20 calls wait in several processes.
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
import { pause } from "../../testing/servers/wait.ts";
import { nowUs } from "../../testing/processes/machine_clock.ts";
import { type Observer, observing } from "../../testing/zookeeper/observer.ts";
import { CONDITION_BOUND_MS, LONG_SESSION_MS, scaled } from "../../testing/time.ts";
import { nothingLeft } from "../../testing/zookeeper/ensemble_traces.ts";
import { newRoot } from "../../testing/zookeeper/waiter.ts";
import { endSession, type SessionKey, sessionKeys } from "../../testing/zookeeper/wire.ts";

/** The soak runs more. */
const RUNS = Deno.env.get("HOLDFAST_SOAK") ? 20 : 1;
const PROCESSES = 4;
const WAITERS = 20;
/** The servers soon let a silent session expire, but not one on a busy machine. */
const SHORT_TIMEOUT_MS = scaled(6_000);
/** Long, so that the holder's own clock does not end its lease first. */
const LONG_TIMEOUT_MS = LONG_SESSION_MS;
const HOLDER = 0;
const LOOK_EVERY_MS = 5;
/** The bound in ms for "at once", even on a busy machine. */
const AT_ONCE_MS = scaled(5_000);

const skip = await zooKeeperEnsembleSkip();
const ignore = skip !== undefined;
const note = skip ? ` [${skip}]` : "";

let ensemble: ZooKeeperEnsemble;
if (!ignore) {
  Deno.test.beforeAll(async () => void (ensemble = await startZooKeeperEnsemble()));
  Deno.test.afterAll(async () => await ensemble[Symbol.asyncDispose]());
}

/** The parts that a test needs to end the holder's session. */
interface Victim {
  readonly proxy: FaultProxy;
  readonly key: SessionKey;
  /** A server that the holder is not connected to. */
  readonly elsewhere: EnsembleMember;
}

interface Outcome {
  readonly lost: PuppetEvent;
  readonly next: PuppetEvent;
  /** When the holder's znode was first seen missing, in µs. */
  readonly goneUs: number;
}

/**
 * Makes the first process, which is behind the proxy, the holder; then 20 calls enter the queue, one
 * by one.
 */
async function lineUp(puppets: readonly Puppet[]): Promise<void> {
  await puppets[0]!.take({ id: HOLDER, name: "n", holdMs: 600_000 });
  await puppets[0]!.event(HOLDER, "granted");
  for (let id = 1; id <= WAITERS; id++) {
    const puppet = puppets[id % PROCESSES]!;
    await puppet.take({ id, name: "n", holdMs: 5 });
    await puppet.event(id, "waits");
  }
}

/** Waits until a znode is missing; returns the time in µs, a few ms late. */
async function goneAt(observer: Observer, path: string): Promise<number> {
  while (await observer.exists(path)) await pause(LOOK_EVERY_MS);
  return nowUs();
}

async function run(
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
    // The waiters of the silent process go on when the proxy is healed.
    const spec = { ...place, sessionTimeoutMs, unavailableAfterMs: CONDITION_BOUND_MS };
    return stack.use(startPuppet({ spec }));
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

/**
 * Checks that each call was served once, one at a time, and survivors in their order. Returns the
 * grants.
 */
function checkOrder(puppets: readonly Puppet[]): PuppetEvent[] {
  const events = puppets.flatMap(({ events }) => events).sort((a, b) => a.atUs - b.atUs);
  const grants = events.filter(({ id, what }) => what === "granted" && id !== HOLDER);
  assertEquals(grants.length, WAITERS);
  const ids = grants.map(({ id }) => id);
  const isSurvivor = (id: number) => id % PROCESSES !== 0;
  const survivors = [...ids].filter(isSurvivor);
  assertEquals(
    ids.slice(0, survivors.length),
    survivors,
    "callers that lost their place should be served last",
  );
  assertEquals(
    survivors,
    [...survivors].sort((a, b) => a - b),
    "survivors should keep their order",
  );
  const tokens = events.flatMap(({ token }) => token === undefined ? [] : [BigInt(token)]);
  assertEquals(tokens, [...tokens].sort((a, b) => a < b ? -1 : 1), "tokens should grow");
  // Grant, leave, grant, leave: no grant came before the previous holder left.
  const turns = events.filter(({ id, what }) => id !== HOLDER && what !== "waits");
  for (const [i, { id, what }] of turns.entries()) {
    assertEquals(what, i % 2 === 0 ? "granted" : "leaves");
    if (i % 2 === 1) assertEquals(id, turns[i - 1]!.id, "there should be one holder at a time");
  }
  return grants;
}

Deno.test({
  name:
    `ZooKeeperLock loses its lease before the next waiter gets it at once when the holder's session expires${note}`,
  ignore,
  async fn() {
    const [delaysMs, marginsMs]: number[][] = [[], []];
    for (let i = 0; i < RUNS; i++) {
      const { lost, next, goneUs } = await run(SHORT_TIMEOUT_MS, ({ proxy }) => {
        proxy.blackHole("both");
        return Promise.resolve();
      });
      assertEquals(lost.reason, "session-expired");
      assertLess(lost.atUs, next.atUs, "the holder should lose its lease before the next grant");
      marginsMs!.push((next.atUs - lost.atUs) / 1_000);
      delaysMs!.push((next.atUs - goneUs) / 1_000);
    }
    assertLess(Math.max(...delaysMs!), AT_ONCE_MS);
    say(
      `${RUNS} sessions expired: loss to next grant ${Math.min(...marginsMs!)} ms or more; ` +
        `znode gone to next grant ${median(delaysMs!)} ms median, ${
          Math.max(...delaysMs!)
        } maximum`,
    );
  },
});

Deno.test({
  name:
    `ZooKeeperLock loses its lease, and waiters keep their order, when another client closes the session${note}`,
  ignore,
  async fn() {
    const [delaysMs, overlapsMs]: number[][] = [[], []];
    for (let i = 0; i < RUNS; i++) {
      let startUs = 0;
      const { lost, next } = await run(LONG_TIMEOUT_MS, async ({ key, elsewhere }) => {
        startUs = nowUs();
        await endSession(elsewhere.port, key);
      });
      // Only the holder's server can notify it, at about the same time as the next waiter.
      assert(["session-expired", "stolen"].includes(lost.reason!));
      assertLess(
        (lost.atUs - startUs) / 1_000,
        LONG_TIMEOUT_MS / 2,
        "the loss should come long before the holder's own deadline",
      );
      overlapsMs!.push((lost.atUs - next.atUs) / 1_000);
      delaysMs!.push((next.atUs - startUs) / 1_000);
    }
    assertLess(Math.max(...delaysMs!), AT_ONCE_MS);
    say(
      `${RUNS} sessions closed: close to next grant ${median(delaysMs!)} ms median, ` +
        `${Math.max(...delaysMs!)} maximum; the holder is notified ${median(overlapsMs!)} ms ` +
        `after that grant, ${Math.max(...overlapsMs!)} maximum`,
    );
  },
});
