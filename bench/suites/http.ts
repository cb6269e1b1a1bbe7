/**
 * The suite `http`: our middleware in each framework, against the same route that acquires and releases the
 * lock by hand. By hand, the lock is released before the response is sent; our middleware releases it when
 * the response ends. One process, real sockets, a new Redis.
 *
 * @module
 */
import { nodeRedis, type NodeRedisClient } from "../../redis/clients/node_redis.ts";
import { RedisLock } from "../../redis/mod.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { connectNodeRedis } from "../contenders/connections.ts";
import { byHand, type Endpoint, ours } from "../http_endpoints.ts";
import { type Figure, FigureBook, valuesOf } from "../library/figures.ts";
import { measured } from "../library/meters.ts";
import { type Job, runRounds, stepsOf } from "../library/rounds.ts";
import { median, ratios } from "../library/statistics.ts";
import type { Suite, SuiteOptions, SuiteResult } from "../library/suite.ts";
import { medianCell, quartilesCell, type Table } from "../library/tables.ts";

const REQUESTS = 400;
/** The greatest allowed ratio. */
const LIMIT = 1.15;
const US = "µs per request";
const FRAMEWORKS = Object.keys(ours);

/** The suite. */
export const http: Suite = {
  name: "http",
  title: "Routes under a lock",
  async measure({ options, progress }) {
    const book = new FigureBook();
    const rounds = roundsOf(options);
    progress.expect(stepsOf(2 * FRAMEWORKS.length, rounds));
    await using server = await startRedis();
    const client = await connectNodeRedis(server.url);
    {
      await using locks = new RedisLock(nodeRedis(client as unknown as NodeRedisClient));
      for (const framework of FRAMEWORKS) {
        await using mine = await ours[framework]!(locks);
        await using least = await byHand[framework]!(locks);
        const jobs = [
          jobOf("holdfast", framework, mine, options.clients),
          jobOf("by hand", framework, least, options.clients),
        ];
        await runRounds(jobs, rounds, book, progress);
      }
    }
    client.destroy();
    return reportOf(book.list(), options);
  },
};

function roundsOf({ isQuick, rounds }: SuiteOptions) {
  if (rounds !== undefined) return { warmUp: Math.min(5, rounds), rounds };
  return isQuick ? { warmUp: 3, rounds: 7 } : { warmUp: 5, rounds: 25 };
}

function jobOf(contender: string, framework: string, endpoint: Endpoint, clients: number): Job {
  return {
    contender,
    at: { framework },
    async run() {
      const { wallUs } = await measured(() => run(endpoint, clients));
      return { [US]: wallUs / REQUESTS };
    },
  };
}

/** Sends requests on uncontended locks. */
async function run({ call }: Endpoint, clients: number): Promise<void> {
  let left = REQUESTS;
  const client = async (index: number) => {
    for (; left > 0; left--) await call(`order-${index}-${left % 50}`);
  };
  await Promise.all(Array.from({ length: clients }, (_, index) => client(index)));
}

function ratiosOf(figures: readonly Figure[], framework: string): number[] {
  const at = { framework };
  return ratios(
    valuesOf(figures, { contender: "holdfast", at }),
    valuesOf(figures, { contender: "by hand", at }),
  );
}

function reportOf(figures: readonly Figure[], { clients }: SuiteOptions): SuiteResult {
  const table: Table = {
    title: clients === 1 ? "One request at a time" : `${clients} requests at a time`,
    rows: [
      ["framework", "µs with our middleware", "µs by hand", "ratio"],
      ...FRAMEWORKS.map((framework) => [
        framework,
        medianCell(valuesOf(figures, { contender: "holdfast", at: { framework } })),
        medianCell(valuesOf(figures, { contender: "by hand", at: { framework } })),
        quartilesCell(ratiosOf(figures, framework)),
      ]),
    ],
  };
  return {
    tables: [table],
    plots: [],
    verdicts: FRAMEWORKS.map((framework) => ({
      title: `a request with ${framework}, × by hand`,
      value: median(ratiosOf(figures, framework)),
      limit: LIMIT,
    })),
    notes: [
      "By hand, a route acquires the lock, and releases it before it sends its response. Our middleware " +
      "releases it when the response has ended.",
    ],
    figures,
  };
}
