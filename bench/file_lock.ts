/**
 * `deno task bench:file`: measures file locks between processes, next to the same locks when the directory
 * cannot be watched. `--old FOLDER` adds those of another checkout. Names of parts run only these.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { makeTempDirectory } from "../testing/runtime/temporary_files.ts";
import { type Reporter, startReporter } from "../testing/processes/child.ts";
import { pause, waitUntil } from "../testing/servers/wait.ts";
import type { ContenderOptions, Hold, IdleCost, Task } from "./file/contender.ts";
import { measureCrowds } from "./file/crowd.ts";
import { judged } from "./compare.ts";

const SCRIPT = new URL("./file/contender.ts", import.meta.url);
const NEW_TREE = new URL("../", import.meta.url).href;
/** How long, in ms, processes contend. */
const CONTEND_MS = 10_000;
const KILLS = 20;
const NAMES = 1_000;
const IDLE_MS = 10_000;

/** The greatest allowed figures: times in ms, and looks of a name per second. */
const LIMITS = { handoffP50: 2, handoffP99: 20, killP50: 50, looks: 1, watches: 1 };

/** A version of the locks: a checkout, and whether its waiters must poll. */
interface Version {
  readonly title: string;
  readonly tree: string;
  readonly isPolling: boolean;
  /** Whether the limits count for it. */
  readonly isJudged: boolean;
}

/** A directory and processes in it. */
class Arena implements AsyncDisposable {
  readonly #options: Omit<ContenderOptions, "task">;
  readonly #processes: Reporter<unknown>[] = [];

  constructor(dir: string, { tree, isPolling }: Version) {
    this.#options = { dir, tree, isPolling };
  }

  start<T>(task: Task): Reporter<T> {
    const started = startReporter<T>(SCRIPT, { ...this.#options, task });
    this.#processes.push(started);
    return started;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const each of this.#processes) await each[Symbol.asyncDispose]();
    await Deno.remove(this.#options.dir, { recursive: true });
  }
}

async function arena(version: Version): Promise<Arena> {
  const dir = await makeTempDirectory();
  await Deno.chmod(dir, 0o700);
  return new Arena(dir, version);
}

function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? NaN;
}

function show(values: readonly number[]): string {
  const [p50, p99] = [quantile(values, 0.5), quantile(values, 0.99)];
  return `p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(1)} ms, at most ${
    Math.max(...values).toFixed(1)
  } ms`;
}

/** Runs processes that contend; returns the grants of each. */
async function contend(
  version: Version,
  processes: number,
  task: { holdMs: number; pauseMs: number },
): Promise<Hold[][]> {
  await using place = await arena(version);
  const running = Array.from(
    { length: processes },
    () => place.start<Hold>({ do: "contend", ...task }),
  );
  await pause(CONTEND_MS);
  await Promise.all(running.map((each) => each.finish()));
  return running.map(({ reports }) => [...reports]);
}

/** The times from a release to the next grant, if another process was waiting and was granted the lock. */
function handoffs(holds: readonly (readonly Hold[])[]): number[] {
  const all = holds.flatMap((own, owner) => own.map((hold) => ({ ...hold, owner })))
    .sort((a, b) => Number(BigInt(a.token) - BigInt(b.token)));
  return all.slice(1).flatMap((next, i) => {
    const last = all[i]!;
    const isHandoff = next.owner !== last.owner && next.askedMs < last.releasedMs;
    return isHandoff ? [next.grantedMs - last.releasedMs] : [];
  });
}

function judge(version: Version, name: string, value: number, limit: number): boolean {
  const { isWithin, text } = judged(value, limit);
  if (!version.isJudged) return true;
  if (!isWithin) console.log(`  ${name}: ${text.replace("ratio ", "")}`);
  return isWithin;
}

async function measureHandoff(version: Version, processes: number): Promise<boolean> {
  const times = handoffs(await contend(version, processes, { holdMs: 1, pauseMs: 3 }));
  console.log(`  handoff, ${processes} processes: ${show(times)} (${times.length} handoffs)`);
  return [
    judge(version, "p50", quantile(times, 0.5), LIMITS.handoffP50),
    judge(version, "p99", quantile(times, 0.99), LIMITS.handoffP99),
  ].every(Boolean);
}

/** Ten processes that ask again at once: how evenly they are served, and the waits. */
async function measureFairness(version: Version): Promise<boolean> {
  const holds = await contend(version, 10, { holdMs: 1, pauseMs: 0 });
  const counts = holds.map(({ length }) => length);
  const waits = holds.flat().map(({ askedMs, grantedMs }) => grantedMs - askedMs);
  const share = Math.min(...counts) / Math.max(...counts);
  const total = counts.reduce((sum, count) => sum + count, 0);
  console.log(
    `  fairness, 10 processes that ask again at once: least served ${Math.min(...counts)}, most ` +
      `served ${Math.max(...counts)} of ${total} grants (share ${share.toFixed(2)}), wait ${
        show(waits)
      }`,
  );
  return true;
}

/** The time from `kill -9` of a holder to the grant of a waiter. */
async function measureKill(version: Version): Promise<boolean> {
  const times: number[] = [];
  await using place = await arena(version);
  let holder = place.start<Hold>({ do: "keep" });
  await waitUntil("the first process holds", () => holder.reports.length > 0);
  for (let i = 0; i < KILLS; i++) {
    const waiter = place.start<Hold>({ do: "keep" });
    await pause(500 + Math.random() * 500);
    const killedMs = Number(Temporal.Now.instant().epochNanoseconds / 1_000n) / 1_000;
    holder.kill("SIGKILL");
    await waitUntil("the waiter is granted the lock", () => waiter.reports.length > 0);
    times.push(waiter.reports[0]!.grantedMs - killedMs);
    holder = waiter;
  }
  console.log(`  kill -9 of the holder: ${show(times)} (${KILLS} kills)`);
  return judge(version, "p50", quantile(times, 0.5), LIMITS.killP50);
}

async function measureIdle(version: Version): Promise<boolean> {
  await using place = await arena(version);
  const holder = place.start({ do: "hold", names: NAMES });
  await waitUntil("all are held", () => holder.reports.length > 0);
  const waiter = place.start<IdleCost | "ready">({ do: "wait", names: NAMES });
  await waitUntil("the process waits", () => waiter.reports.length > 0);
  await pause(IDLE_MS);
  await waiter.finish();
  const cost = waiter.reports[1] as IdleCost;
  const looks = cost.looks / cost.seconds / NAMES;
  const cpu = cost.cpuMs / cost.seconds / 10;
  console.log(
    `  a process that waits for ${NAMES} names: ${looks.toFixed(2)} looks per name and second, ` +
      `${cpu.toFixed(1)} % of a core, ${cost.watches} watches`,
  );
  return [
    judge(version, "looks", looks, LIMITS.looks),
    judge(version, "watches", cost.watches, LIMITS.watches),
  ].every(Boolean);
}

const PARTS: Readonly<Record<string, (version: Version) => Promise<boolean>>> = {
  "handoff-2": (version) => measureHandoff(version, 2),
  "handoff-10": (version) => measureHandoff(version, 10),
  fairness: measureFairness,
  kill: measureKill,
  idle: measureIdle,
};

/** The part that compares runtimes, not versions. */
const CROWD = "crowd";

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { old: { type: "string" } },
  });
  const current = { tree: NEW_TREE, isJudged: true };
  const versions: Version[] = [
    { ...current, title: "Waiters that watch the directory", isPolling: false },
    { ...current, title: "Waiters that poll, every 10 ms", isPolling: true, isJudged: false },
  ];
  if (values.old !== undefined) {
    const tree = pathToFileURL(`${values.old}/`).href;
    versions.push({ title: values.old, tree, isPolling: false, isJudged: false });
  }
  const parts = positionals.length > 0 ? positionals : [...Object.keys(PARTS), CROWD];
  let isWithinLimits = true;
  if (parts.includes(CROWD)) isWithinLimits = await measureCrowds();
  for (const part of parts.filter((part) => part !== CROWD)) {
    for (const version of versions) {
      console.log(version.title);
      if (!await PARTS[part]!(version)) isWithinLimits = false;
    }
  }
  return isWithinLimits ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main());
