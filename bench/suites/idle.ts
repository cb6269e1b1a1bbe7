/**
 * The suite `idle`: what waiters cost while nothing happens, and what held locks cost.
 *
 * @module
 */
import { pause } from "../../testing/servers/wait.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { LOCKS, SETTINGS } from "../contenders/all.ts";
import { type Contender, idOf } from "../library/contender.ts";
import { type Figure, FigureBook, valuesOf } from "../library/figures.ts";
import { readServer, serverCost } from "../library/meters.ts";
import type { Suite, SuiteResult } from "../library/suite.ts";
import { medianCell, type Table } from "../library/tables.ts";
import { type Crowd, startCrowd } from "../processes/crowd.ts";

/** The measured quantities. */
export const MEASURES = {
  commands: "commands per second",
  server: "server CPU, %",
  client: "client CPU, %",
  heap: "bytes of heap for each",
} as const;
/** Nobody has to renew a lock while waiters are watched. */
const LONG_TTL_MS = 120_000;
const WAITERS = [50, 1_000];
const MOST_POLLING = 100;
const LEASES = 10_000;

/** How long crowds settle, and how long they are watched, in ms. */
interface Times {
  readonly settleMs: number;
  readonly watchMs: number;
}

/** The suite. */
export const idle: Suite = {
  name: "idle",
  title: "Waiters while nothing happens, and held locks",
  async measure({ options: { isQuick }, progress }) {
    const book = new FigureBook();
    const waits = WAITERS.flatMap((count) =>
      LOCKS.filter(({ has }) => has.queue || count <= MOST_POLLING)
        .map((contender) => ({ contender, count }))
    );
    const ours = LOCKS.filter(({ has }) => has.queue);
    const leases = isQuick ? LEASES / 10 : LEASES;
    progress.expect(waits.length + ours.length);
    const waiting = { settleMs: 2_000, watchMs: isQuick ? 2_000 : 5_000 };
    for (const { contender, count } of waits) {
      progress.step(`${idOf(contender)}, ${count} waiters`);
      book.add(contender.name, { client: contender.client, waiters: count }, {
        ...await watchWaiters(contender, count, waiting),
      });
    }
    const holding = { settleMs: 1_000, watchMs: isQuick ? 7_000 : 60_000 };
    for (const contender of ours) {
      progress.step(`${idOf(contender)}, ${leases} held locks`);
      book.add(contender.name, { client: contender.client, leases }, {
        ...await watchHolders(contender, leases, holding),
      });
    }
    return reportOf(book.list(), leases, holding);
  },
};

async function watchWaiters(contender: Contender, count: number, times: Times) {
  await using server = await startRedis();
  await using holder = await contender.open(server.url, { ...SETTINGS, ttlMs: LONG_TTL_MS });
  const id = idOf(contender);
  const hold = await holder.acquire("idle");
  const options = { id, url: server.url, ttlMs: LONG_TTL_MS, name: "idle", count };
  const figures = await (async () => {
    await using crowd = await startCrowd({ ...options, kind: "wait" });
    return await watch(contender, server, crowd, count, times);
  })();
  await hold.release();
  return figures;
}

async function watchHolders(contender: Contender, count: number, times: Times) {
  await using server = await startRedis();
  const { ttlMs } = SETTINGS;
  const options = { id: idOf(contender), url: server.url, ttlMs, name: "held", count };
  await using crowd = await startCrowd({ ...options, kind: "hold" });
  return await watch(contender, server, crowd, count, times);
}

async function watch(
  contender: Contender,
  server: RedisServer,
  crowd: Crowd,
  count: number,
  { settleMs, watchMs }: Times,
) {
  await pause(settleMs);
  const heapBytes = await crowd.heapBytes() - crowd.emptyHeapBytes;
  const clientUs = await crowd.cpuUs();
  const startMs = performance.now();
  const before = await readServer(server.command);
  await pause(watchMs);
  const after = await readServer(server.command);
  const elapsedMs = performance.now() - startMs;
  const spentUs = await crowd.cpuUs() - clientUs;
  const { commands, cpuUs } = serverCost(before, after, contender.sends);
  return {
    [MEASURES.commands]: commands / (elapsedMs / 1_000),
    [MEASURES.server]: cpuUs / 10 / elapsedMs,
    [MEASURES.client]: spentUs / 10 / elapsedMs,
    [MEASURES.heap]: heapBytes / count,
  };
}

function reportOf(figures: readonly Figure[], leases: number, { watchMs }: Times): SuiteResult {
  const count = (value: number) => value.toLocaleString("en");
  return {
    tables: [
      ...WAITERS.map((waiters) =>
        table(figures, `${count(waiters)} waiters of one lock`, { waiters })
      ),
      table(figures, `${count(leases)} held locks for ${watchMs / 1_000} s`, { leases }),
    ],
    plots: [],
    verdicts: [],
    notes: [
      "All waiters are in one process and wait for a lock that another process holds. Packages that " +
      "poll do so every 5 ms here, as in the suite `contended`. Held locks have a TTL of " +
      `${SETTINGS.ttlMs / 1_000} s and are renewed.`,
    ],
    figures,
  };
}

function table(figures: readonly Figure[], title: string, at: Figure["at"]): Table {
  const rows = LOCKS.flatMap(({ name, client }) => {
    const cells = Object.values(MEASURES).map((measure) =>
      medianCell(valuesOf(figures, { contender: name, measure, at: { ...at, client } }))
    );
    return cells.every((cell) => cell === "–") ? [] : [[client, name, ...cells]];
  });
  return { title, rows: [["client", "contender", ...Object.values(MEASURES)], ...rows] };
}
