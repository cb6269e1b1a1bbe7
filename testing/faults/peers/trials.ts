/**
 * The trials: the same faults for every package, and how each one ended.
 *
 * @module
 */
// Paces a workload: a fault comes while a lease is renewed, and a client has a time to clean up.
import { nowUs } from "../../processes/machine_clock.ts";
import { type Reporter, startReporter } from "../../processes/child.ts";
import { type FaultProxy, startProxy } from "../../servers/proxy.ts";
import type { RedisServer } from "../../servers/redis.ts";
import { pause, waitUntil } from "../../servers/wait.ts";
import { check } from "../checker.ts";
import type { FaultEvent, WorkerEvent } from "../history.ts";
import { keyOf, type Peer } from "./locks.ts";
import { type PeerWorkerOptions, warmUpName } from "./peer_worker.ts";
import { CONDITION_BOUND_MS, scaled } from "../../time.ts";

/** The faults that hit a holder, or a call that acquires. */
export const FAULTS = ["pause", "black-hole", "lost-reply"] as const;

/** One of them. */
export type Fault = typeof FAULTS[number];

/** The outcome of a trial. */
export interface Outcome {
  /** How often the package told two processes at the same instant that they hold the lock. */
  readonly overlaps: number;
  /** The length of the overlap, in ms. */
  readonly overlapMs: number;
  /**
   * How long in ms after the loss (and after it could run again) the holder was notified; negative if
   * it was notified before. Null: not while it was watched. Undefined: no lock was lost.
   */
  readonly lateMs?: number | null;
  /** Whether an acquire failed. */
  readonly isFailed: boolean;
  /** How long in ms the lock remains on the server after an acquire that failed. */
  readonly leftMs: number;
}

/** The part of an outcome that does not come from recorded events. */
type Ending = Omit<Outcome, "overlaps" | "overlapMs">;

/** The TTL of a holder; long enough for all packages to renew in time. */
const TTL_MS = 2_000;
/** The TTL of a lock that may be left behind. */
const LONG_TTL_MS = scaled(10_000);
const PATIENCE_MS = scaled(3_000);
/** How long a holder is watched after its lock is lost. */
const WATCHED_MS = 10_000;
/** How long after a failed acquire its clean-up may take. */
const CLEANED_WITHIN_MS = 500;
const BOUND_MS = CONDITION_BOUND_MS;

/** A process that uses a package, with its reports. */
interface PeerWorker extends Reporter<WorkerEvent> {
  readonly name: string;
}

interface Stage extends AsyncDisposable {
  readonly server: RedisServer;
  readonly key: string;
  readonly name: string;
  /** It reaches the server through {@linkcode proxy}. */
  readonly holder: PeerWorker;
  readonly rival: PeerWorker;
  readonly proxy: FaultProxy;
  readonly faults: FaultEvent[];
}

/** Runs one trial. */
export async function play(peer: Peer, fault: Fault, server: RedisServer): Promise<Outcome> {
  const ttlMs = fault === "lost-reply" ? LONG_TTL_MS : TTL_MS;
  await using stage = await setUp(peer, server, ttlMs);
  const startUs = nowUs();
  const play = { pause: playPause, "black-hole": playBlackHole, "lost-reply": playLostReply };
  const outcome = await play[fault](stage);
  const { holder, rival, faults } = stage;
  const events = [...holder.reports, ...rival.reports].filter(({ name }) => name === stage.name);
  const { violations } = check({
    ...{ seed: 0, strategy: "redis", fifo: false, startUs, endUs: nowUs(), events, faults },
    ...{ residue: [], crashed: [holder.name, rival.name] },
  });
  const overlaps = violations.filter(({ kind }) => kind === "overlap" || kind === "early-grant");
  return { overlaps: overlaps.length, overlapMs: overlapOf(stage), ...outcome };
}

async function setUp(peer: Peer, server: RedisServer, ttlMs: number): Promise<Stage> {
  await using stack = new AsyncDisposableStack();
  const proxy = stack.use(startProxy({ hostname: "127.0.0.1", port: server.port }));
  const start = async (worker: string, url: string): Promise<PeerWorker> => {
    const options: PeerWorkerOptions = { peer, url, worker, ttlMs, patienceMs: PATIENCE_MS };
    const script = new URL("./peer_worker.ts", import.meta.url);
    const reporter = stack.use(startReporter<WorkerEvent>(script, options));
    const warm = warmUpName(options);
    await reported(reporter, ({ kind, name }) => kind === "released" && name === warm);
    return Object.assign(reporter, { name: worker });
  };
  const name = `orders:${crypto.randomUUID()}`;
  const [holder, rival] = await Promise.all([
    start("w1.0", `redis://${proxy.hostname}:${proxy.port}`),
    start("w2.0", server.url),
  ]);
  const disposal = stack.move();
  return {
    ...{ server, name, key: keyOf(peer, name), holder, rival, proxy, faults: [] },
    [Symbol.asyncDispose]: () => disposal.disposeAsync(),
  };
}

/** Waits for an event. */
async function reported(
  { reports }: Pick<Reporter<WorkerEvent>, "reports">,
  is: (event: WorkerEvent) => boolean,
  boundMs = BOUND_MS,
): Promise<WorkerEvent> {
  await waitUntil("the event is reported", () => reports.some(is), boundMs);
  return reports.find(is)!;
}

/** Waits for an event of the lock of this trial. */
function happens(worker: PeerWorker, { name }: Stage, kind: WorkerEvent["kind"]) {
  return reported(worker, (event) => event.kind === kind && event.name === name);
}

/** Freezes the holder for longer than its lease, so that the rival gets the lock. */
async function playPause(stage: Stage): Promise<Ending> {
  const { holder, rival, faults } = stage;
  const loss = await holdBoth(stage);
  const atUs = nowUs();
  holder.kill("SIGSTOP");
  const lostUs = await loss();
  await happens(rival, stage, "granted");
  await pause(TTL_MS / 4);
  const untilUs = nowUs();
  holder.kill("SIGCONT");
  faults.push({ atUs, untilUs, fault: "pause", target: holder.name, destructive: false });
  const lateMs = await lateness(stage, Math.max(lostUs, untilUs));
  await Promise.all([holder.send("stop"), rival.send("stop")]);
  return { lateMs, isFailed: false, leftMs: 0 };
}

/** Swallows all bytes between the holder and the server. */
async function playBlackHole(stage: Stage): Promise<Ending> {
  const { rival, proxy, faults } = stage;
  const loss = await holdBoth(stage);
  const atUs = nowUs();
  proxy.blackHole("both");
  const lostUs = await loss();
  await happens(rival, stage, "granted");
  const lateMs = await lateness(stage, lostUs);
  faults.push({ atUs, untilUs: nowUs(), fault: "black-hole", target: "w1", destructive: false });
  await rival.send("stop");
  proxy.heal();
  return { lateMs, isFailed: false, leftMs: 0 };
}

/** The server grants the first request, but its reply is lost because the connection is cut. */
async function playLostReply(stage: Stage): Promise<Ending> {
  const { holder, proxy, server, key, name } = stage;
  let isAsked = false;
  let isCut = false;
  proxy.onRequest = (chunk) => {
    isAsked ||= new TextDecoder().decode(chunk).includes(key);
    return "pass";
  };
  proxy.onReply = () => {
    if (!isAsked || isCut) return "pass";
    isCut = true;
    return "cut";
  };
  await holder.send(`once ${name}`);
  const ended = await reported(
    holder,
    (event) => event.name === name && ["granted", "failed"].includes(event.kind),
  );
  if (!isCut) throw new Error("No reply was cut");
  const isFailed = ended.kind === "failed";
  if (isFailed) await pause(CLEANED_WITHIN_MS);
  const leftMs = isFailed ? Math.max(0, Number(await server.command("PTTL", key))) : 0;
  await holder.send("stop");
  return { isFailed, leftMs };
}

/** Lets the holder acquire the lock and the rival try; resolves with a function that awaits the loss. */
async function holdBoth(stage: Stage): Promise<() => Promise<number>> {
  const { holder, rival, name, key, server } = stage;
  await holder.send(`until ${name}`);
  await happens(holder, stage, "granted");
  const value = await server.command("GET", key);
  await rival.send(`until ${name}`);
  await happens(rival, stage, "invoke");
  await pause(TTL_MS); // renewed at least once
  return async () => {
    const endMs = performance.now() + BOUND_MS;
    while (await server.command("GET", key) === value) {
      if (performance.now() > endMs) throw new Error("The lock was not lost");
      await pause(1);
    }
    return nowUs();
  };
}

/** How many ms after an instant the holder was notified of its loss; null if it was not. */
async function lateness(stage: Stage, sinceUs: number): Promise<number | null> {
  const isLost = ({ kind, name }: WorkerEvent) => kind === "lost" && name === stage.name;
  const lost = await reported(stage.holder, isLost, WATCHED_MS).catch(() => null);
  return lost && (lost.atUs - sinceUs) / 1_000;
}

/** How long in ms the package told the holder that it has the lock while the rival had it. */
function overlapOf({ holder, rival, name, faults }: Stage): number {
  const first = rival.reports.find((event) => event.kind === "granted" && event.name === name);
  if (!first) return 0;
  const fromUs = Math.max(
    first.atUs,
    ...faults.flatMap(({ fault, untilUs }) => fault === "pause" && untilUs ? [untilUs] : []),
  );
  const lastUs = Math.max(
    0,
    ...holder.reports.flatMap(({ name: of, deadlineUs }) =>
      of === name && deadlineUs ? [deadlineUs] : []
    ),
  );
  return Math.max(0, (lastUs - fromUs) / 1_000);
}
