/**
 * Many planned failovers while several clients contend for locks: how many leases overlap, and for how long
 * nobody is granted a lock. Only in a soak.
 */
import { assertEquals, assertLessOrEqual } from "@std/assert";
import type { Lease } from "../../mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { say } from "../../testing/processes/figures.ts";
import {
  type FailoverClient,
  NAME,
  openFailoverPlace,
} from "../../testing/redis/failover_places.ts";
import { redisSentinelSkip } from "../../testing/servers/redis_sentinel.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS, scaled } from "../../testing/time.ts";

const FAILOVERS = Number(Deno.env.get("HOLDFAST_FAILOVERS") ?? 20);
const TTL_MS = scaled(10_000);
const NAMES = Array.from({ length: 4 }, (_, i) => `${NAME}${i}`);
const HOLD_MS = 3;
/** A lock that is held when a replica is promoted stays held, and cannot have two holders: so most are free. */
const IDLE_MS = 20;
/** A wait ends by a grant, or at the TTL of a lease whose release was lost. */
const WAIT_MS = 3 * TTL_MS;
/**
 * For how long in ms after a promotion leases may overlap, as `docs/safety.md` says: until the sentinels have
 * told all clients, or until they demote the old primary.
 */
const OVERLAP_BOUNDS_MS: Readonly<Record<FailoverClient, number>> = {
  "ioredis-cluster": 0,
  "node-redis-cluster": 0,
  "ioredis-sentinel": scaled(3_000),
  "node-redis-sentinel": scaled(3_000),
  "ioredis-sentinel-untold": scaled(12_000),
  "ioredis-sentinel-min-replicas": 0,
};

interface Granted {
  readonly name: string;
  readonly atMs: number;
  readonly token: bigint;
  /** Whether another lease of the lock was held at that time. */
  readonly overlaps: boolean;
}

const wantsSoak = Deno.env.get("HOLDFAST_SOAK") === undefined;
const skip = wantsSoak ? "soak only" : await redisSentinelSkip();
const suffix = skip === undefined ? "" : ` [skipped: ${skip}]`;

/** Acquires and releases the locks in turn until `ended` aborts. */
async function contend(lock: RedisLock, held: Map<string, Set<Lease>>, grants: Granted[], {
  ended,
  turn,
}: { ended: AbortSignal; turn: number }) {
  for (let i = turn; !ended.aborted; i++) {
    const name = NAMES[i % NAMES.length]!;
    const lease = await lock.acquire(name, { waitMs: WAIT_MS }).catch(() => null);
    if (lease === null) continue;
    const others = held.get(name)!;
    const overlaps = lease.isHeld && [...others].some(({ isHeld }) => isHeld);
    grants.push({ name, atMs: performance.now(), token: lease.fencingToken, overlaps });
    others.add(lease);
    await pause(HOLD_MS); // no condition: how long it is held
    others.delete(lease);
    await lease.release().catch(() => {});
    await pause(IDLE_MS); // no condition: how long it is free
  }
}

/** The longest time in ms between two grants of one lock, from `fromMs` to `toMs`. */
function longestGapMs(grants: readonly Granted[], fromMs: number, toMs: number): number {
  return Math.round(Math.max(...NAMES.map((name) => {
    const times = grants.filter((grant) => grant.name === name && grant.atMs > fromMs)
      .map(({ atMs }) => atMs);
    const marks = [fromMs, ...times, toMs];
    return Math.max(...marks.slice(1).map((ms, i) => ms - marks[i]!));
  })));
}

/** How many grants have a token that is not greater than all before it. */
function lowTokens(grants: readonly Granted[]): number {
  const last = new Map<string, bigint>();
  let count = 0;
  for (const { name, token } of grants) {
    const greatest = last.get(name) ?? 0n;
    if (token <= greatest) count++;
    else last.set(name, token);
  }
  return count;
}

for (const client of Object.keys(OVERLAP_BOUNDS_MS) as FailoverClient[]) {
  Deno.test({
    name: `RedisLock over ${client}: overlaps in ${FAILOVERS} planned failovers${suffix}`,
    ignore: skip !== undefined,
    async fn() {
      await using place = await openFailoverPlace(client);
      const other = client.endsWith("cluster") ? "node-redis-cluster" : "node-redis-sentinel";
      const clients = await Promise.all([client, client, other].map((each) => {
        return place.open(each as FailoverClient);
      }));
      const held = new Map(NAMES.map((name) => [name, new Set<Lease>()]));
      const grants: Granted[] = [];
      const ended = new AbortController();
      const options = { ttlMs: TTL_MS, unavailableAfterMs: CONDITION_BOUND_MS, onWarning() {} };
      const locks = clients.map(({ client }) => new RedisLock(client, options));
      const contending = locks.map((lock, turn) => {
        return contend(lock, held, grants, { ended: ended.signal, turn });
      });
      const grantedSince = (fromMs: number) =>
        waitUntil("each lock was granted", () => {
          return NAMES.every((name) =>
            grants.some((each) => each.name === name && each.atMs > fromMs)
          );
        });
      await grantedSince(0);
      let [bad, inFailovers, latestMs, longestMs] = [0, 0, -Infinity, 0];
      for (let i = 1; i <= FAILOVERS; i++) {
        const startMs = performance.now();
        await place.failOver();
        await place.promoted();
        const promotedMs = performance.now();
        await place.demoted();
        await grantedSince(performance.now());
        const endMs = performance.now();
        const gapMs = longestGapMs(grants, startMs, endMs);
        const overlaps = grants.filter(({ atMs, overlaps }) => overlaps && atMs > startMs);
        if (overlaps.length > 0) {
          bad++;
          inFailovers += overlaps.length;
          latestMs = Math.max(latestMs, Math.round(overlaps.at(-1)!.atMs - promotedMs));
        }
        longestMs = Math.max(longestMs, gapMs);
        say(
          `${client}, failover ${i}: a lock without a grant for ${gapMs} ms, ` +
            `${overlaps.length} overlaps; took ${Math.round(endMs - startMs)} ms`,
        );
      }
      ended.abort();
      await Promise.all(contending);
      for (const lock of locks) await lock[Symbol.asyncDispose]();
      for (const { close } of clients) await close();
      const overlaps = grants.filter(({ overlaps }) => overlaps).length;
      const late = bad === 0 ? "" : `, the last one ${latestMs} ms after a promotion`;
      say(
        `${client}: ${grants.length} grants, ${lowTokens(grants)} with a token that is too low, ` +
          `${overlaps} overlaps in ${bad} of ${FAILOVERS} planned failovers${late}; ` +
          `longest time without a grant ${longestMs} ms`,
      );
      const boundMs = OVERLAP_BOUNDS_MS[client];
      if (boundMs === 0) assertEquals(overlaps, 0);
      assertLessOrEqual(latestMs, boundMs);
      assertEquals(overlaps, inFailovers, "all are in failovers");
    },
  });
}
