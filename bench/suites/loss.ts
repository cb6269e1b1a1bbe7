/**
 * The suite `loss`: how late a holder learns that it lost its lock, and what killed processes cost.
 *
 * @module
 */
import { type Peer, PEERS } from "../../testing/faults/peers/locks.ts";
import { type Outcome, play } from "../../testing/faults/peers/trials.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { LOCKS } from "../contenders/all.ts";
import { FigureBook, valuesOf } from "../library/figures.ts";
import { type Job, runRounds, stepsOf } from "../library/rounds.ts";
import type { Suite, SuiteResult } from "../library/suite.ts";
import { medianCell, type Table } from "../library/tables.ts";
import { CRASH_MEASURES, killHolder, killWaiter } from "./crashes.ts";

/** Short, so that the suite is too; what a killed holder costs grows with it. */
const SETTINGS = { ttlMs: 2_000, pollMs: 5 } as const;
/** The measured quantities in the black hole. */
const HOLE = {
  late: "ms from the loss to the signal",
  overlap: "ms in which two processes believed that they hold the lock",
} as const;
/** The packages of the black hole with ioredis. */
const CLIENT = "ioredis";

/** The suite. */
export const loss: Suite = {
  name: "loss",
  title: "Lost locks and killed processes",
  async measure({ options, progress }) {
    const book = new FigureBook();
    const rounds = { warmUp: 0, rounds: options.rounds ?? (options.isQuick ? 1 : 3) };
    progress.expect(rounds.rounds + stepsOf(LOCKS.length, rounds));
    await using server = await startRedis();
    for (let round = 0; round < rounds.rounds; round++) {
      progress.step("all packages in a black hole");
      const outcomes = await Promise.all(PEERS.map((peer) => play(peer, "black-hole", server)));
      PEERS.forEach((peer, index) => note(book, peer, outcomes[index]!));
    }
    const jobs = LOCKS.map((contender): Job => ({
      contender: contender.name,
      at: { client: contender.client },
      async run() {
        const [holder, waiter] = await Promise.all([
          killHolder(contender, server.url, SETTINGS),
          killWaiter(contender, server.url, SETTINGS),
        ]);
        return { [CRASH_MEASURES.holder]: holder, [CRASH_MEASURES.waiter]: waiter };
      },
    }));
    await runRounds(jobs, rounds, book, progress);
    return reportOf(book);
  },
};

/** A signal that did not come while the holder was watched is stored as no number. */
function note(book: FigureBook, peer: Peer, { lateMs, overlapMs }: Outcome): void {
  const values = { [HOLE.late]: lateMs ?? NaN, [HOLE.overlap]: overlapMs };
  book.add(peer, { client: CLIENT, fault: "black hole" }, values);
}

function reportOf(book: FigureBook): SuiteResult {
  const figures = book.list();
  const hole: Table = {
    title: "A holder in a black hole, TTL 2 s",
    note:
      "Negative: the holder was notified before the lock was free for others. A dash: it was not " +
      "notified within 10 s.",
    rows: [
      ["package", HOLE.late, HOLE.overlap],
      ...PEERS.map((contender) => [
        contender,
        ...Object.values(HOLE).map((measure) =>
          medianCell(valuesOf(figures, { contender, measure }))
        ),
      ]),
    ],
  };
  const crashes: Table = {
    title: "Killed processes, TTL 2 s",
    note:
      "A killed holder costs up to the TTL. It was last renewed up to a renewal interval before.",
    rows: [
      ["client", "contender", ...Object.values(CRASH_MEASURES)],
      ...LOCKS.map(({ name, client }) => [
        client,
        name,
        ...Object.values(CRASH_MEASURES).map((measure) =>
          medianCell(valuesOf(figures, { contender: name, measure, at: { client } }))
        ),
      ]),
    ],
  };
  return {
    tables: [hole, crashes],
    plots: [],
    verdicts: [],
    notes: [
      "In the black hole, a proxy swallows all bytes between the holder and the server, and another " +
      "process gets the lock when it expires. Packages have their default settings there, except the " +
      "TTL; each keeps its lock in the way that renews it. `deno task faults:peers` has more faults.",
    ],
    figures,
  };
}
