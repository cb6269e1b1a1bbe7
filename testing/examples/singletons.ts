/**
 * The tests of the examples without a framework (a cron job, a leader, a cache), for any lock.
 *
 * @module
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { FencedStore } from "../../examples/fenced_store.ts";
import { type Shown, untilShown, watchStalls } from "../processes/stalls.ts";
import { waitUntil } from "../servers/wait.ts";
import { scaled } from "../time.ts";
import { type Place, type Program, startProgram } from "./programs.ts";

const EVERY_MS = 500;
const LEADING = "Leading under token ";
const WAITING = "Waiting to lead";

function isRun(line: string): boolean {
  return line.includes(" report ") && /^\d/.test(line);
}

/** Runs three processes whose clocks differ; fails unless each tick is run by exactly one. */
export function cronOnce(place: Place): Promise<void> {
  return untilShown(() => runCron(place));
}

async function runCron(place: Place): Promise<Shown> {
  using stalls = watchStalls();
  await using stack = new AsyncDisposableStack();
  const programs = [0, 20, 90].map((slowMs) =>
    stack.use(
      startProgram("cron.ts", place, "--every-ms", `${EVERY_MS}`, "--slow-ms", `${slowMs}`),
    )
  );
  const runs = () => programs.flatMap(({ lines }) => lines).filter(isRun).sort();
  const others = () => programs.flatMap(({ lines }) => lines).filter((line) => !isRun(line));
  const tickOf = (line: string) => Date.parse(line.split(" ")[0]!);
  /** After a stall of its own, which is not one of this process, a process may run a tick before its time. */
  const early = new Set<number>();
  await waitUntil(
    "five ticks have been run, and another process says that it runs none of them",
    () => {
      const nowMs = Date.now();
      for (const tick of runs().map(tickOf)) if (tick - nowMs > EVERY_MS / 10) early.add(tick);
      return runs().length >= 5 && others().some((line) => line.startsWith("Another process runs"));
    },
  );
  const lines = runs();
  for (const line of lines) assertMatch(line, /^\S+ report under token \d+$/);
  const ticks = lines.map(tickOf);
  // The lock of a tick that is run early ends before the last process has the tick.
  const twice = ticks.filter((tick, i) => ticks.indexOf(tick) !== i);
  const isExcused = stalls.longestMs > EVERY_MS / 4 || twice.every((tick) => early.has(tick));
  if (twice.length > 0 && isExcused) return "stalled";
  assertEquals(twice, [], "no tick is run twice");
  for (const tick of ticks) assertEquals(tick % EVERY_MS, 0);
  const tokens = lines.map((line) => BigInt(line.split(" ").at(-1)!));
  assertEquals(tokens, tokens.toSorted((a, b) => a < b ? -1 : 1), "tokens grow");
  return "shown";
}

function leaders(programs: readonly Program[]): Program[] {
  return programs.filter(({ lines }) => lines.at(-1)?.startsWith(LEADING));
}

/** Runs three processes; kills the first leader and ends the next ones with SIGTERM. */
export async function leadersInTurn(place: Place): Promise<void> {
  await using stack = new AsyncDisposableStack();
  using store = new FencedStore(`${place.dir}/holdfast-leader.db`);
  const programs = [0, 1, 2].map(() =>
    stack.use(startProgram("leader.ts", place, "--every-ms", "20"))
  );
  const terms: bigint[] = [];
  let running = [...programs];
  for (const signal of ["SIGKILL", "SIGTERM", "SIGTERM"] as const) {
    await waitUntil("a process leads", () => leaders(running).length > 0);
    const [leader, ...more] = leaders(running);
    assertEquals(more, []);
    await waitUntil("the leader writes", () => store.read("leader")?.value === `${leader!.pid}`);
    terms.push(store.read("leader")!.fence);
    assertEquals(leader!.lines.filter((line) => line !== WAITING), [`${LEADING}${terms.at(-1)}`]);
    running = running.filter((program) => program !== leader);
    await waitUntil(
      "the others say that they wait",
      () => running.every(({ lines }) => lines.includes(WAITING)),
    );
    leader!.kill(signal);
    assertEquals(await leader!.ended, signal === "SIGTERM" ? 0 : 137);
  }
  assert(terms[0]! < terms[1]! && terms[1]! < terms[2]!, terms.join());
}

/** Suspends a leader for longer than its lease; fails unless the other process takes over. */
export async function leaderAsleep(place: Place): Promise<void> {
  await using stack = new AsyncDisposableStack();
  using store = new FencedStore(`${place.dir}/holdfast-leader.db`);
  const start = () => stack.use(startProgram("leader.ts", place, "--every-ms", "1"));
  const first = start();
  await first.saying(LEADING);
  const second = start();
  await second.saying(WAITING);
  first.kill("SIGSTOP"); // somewhere among its writes
  const token = BigInt(await second.saying(LEADING));
  first.kill("SIGCONT");
  await first.saying("LeaseLostError");
  await waitUntil("the second writes", () => store.read("leader")?.fence === token);
  assertEquals(leaders([first, second]), [second]);
  await waitUntil("the first waits again", () => first.lines.at(-1) === WAITING);
  assertEquals(store.read("leader"), { value: `${second.pid}`, fence: token });
  second.kill("SIGTERM");
  assertEquals(await second.ended, 0);
  await waitUntil("the first leads again", () => leaders([first]).length === 1);
}

/** Sends many requests to two processes; fails unless an outdated cache is refilled once. */
export async function refilledOnce(place: Place): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const freshMs = scaled(1_000);
  const programs = [0, 1].map(() =>
    stack.use(startProgram("web/cache.ts", place, "--port", "0", "--fresh-ms", `${freshMs}`))
  );
  const urls = await Promise.all(programs.map((program) => program.saying("Listening on ")));
  const refills = () =>
    programs.flatMap(({ lines }) => lines.filter((line) => line === "refilled")).length;
  const reports = new Set<string>();
  // The first requests fill the cache, the others go on until its report is outdated.
  await waitUntil("the cache is refilled", async () => {
    await Promise.all(Array.from({ length: 60 }, async (_, i) => {
      reports.add(await (await fetch(urls[i % 2]!)).text());
    }));
    return refills() > 1;
  });
  // What a process prints may come later than its reports.
  await waitUntil("each refill is said", () => refills() >= reports.size);
  assertEquals(reports.size, refills(), "all requests got the report of a refill");
}
