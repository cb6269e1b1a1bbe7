/**
 * What it costs when many processes of one runtime wait for a name, and when one of them gets the lock of a
 * holder that was killed.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { type Runtime, runtimes } from "../../testing/file/file_runtimes.ts";
import { type Member, startMember } from "../../testing/file/members.ts";
import { temporary } from "../../testing/file/lock_directories.ts";
import { makeTempDirectory } from "../../testing/runtime/temporary_files.ts";
import { pause } from "../../testing/servers/wait.ts";

const PROCESSES = 80;
const WAIT_MS = 10_000;
const KILLS = 20;
/** After its start V8 collects garbage for some time. */
const SETTLE_MS = 60_000;

/** The greatest allowed figures: cores of all processes together, and ms from a kill to the next grant. */
const LIMITS = { cores: 0.1, killMs: 50 };

/** Measures each runtime; returns whether all are within the limits. */
export async function measureCrowds(): Promise<boolean> {
  const bundles = await makeTempDirectory();
  try {
    let isWithin = true;
    for (const runtime of await runtimes(bundles)) {
      if (!await measureCrowd(runtime)) isWithin = false;
    }
    return isWithin;
  } finally {
    await Deno.remove(bundles, { recursive: true });
  }
}

async function measureCrowd(runtime: Runtime): Promise<boolean> {
  await using temp = await temporary();
  await using members = new AsyncDisposableStack();
  const start = () => members.use(startMember(runtime, { do: "keep", dir: temp.dir }));
  let holder = start();
  await holder.report();
  const waiters = Array.from({ length: PROCESSES }, start);
  for (const waiter of waiters) await waiter.report();
  await pause(SETTLE_MS);
  const pids = waiters.map(({ pid }) => pid);
  const [startMs, startCpuMs] = [performance.now(), cpuMs(pids)];
  await pause(WAIT_MS);
  const cores = (cpuMs(pids) - startCpuMs) / (performance.now() - startMs);
  const times: number[] = [];
  // Each of them becomes the holder, and is killed.
  const grants = new Map(waiters.map((waiter) => [waiter, nextGrant(waiter)]));
  for (let i = 0; i < KILLS; i++) {
    const killedMs = performance.timeOrigin + performance.now();
    holder.kill("SIGKILL");
    const { member, grantedMs } = await Promise.race(grants.values());
    grants.delete(member);
    times.push(grantedMs - killedMs);
    holder = member;
    await pause(100);
  }
  times.sort((a, b) => a - b);
  const [p50, most] = [times[KILLS / 2]!, times.at(-1)!];
  console.log(
    `  ${PROCESSES} processes of ${runtime.name} wait: ${cores.toFixed(3)} cores; ` +
      `a kill to the grant: p50 ${p50.toFixed(1)} ms, at most ${most.toFixed(1)} ms`,
  );
  return cores <= LIMITS.cores && most <= LIMITS.killMs;
}

async function nextGrant(member: Member): Promise<{ member: Member; grantedMs: number }> {
  const { grantedMs } = await member.report() as { grantedMs: number };
  return { member, grantedMs };
}

/** The CPU time of all threads of processes. */
function cpuMs(pids: readonly number[]): number {
  const tasks = pids.flatMap((pid) =>
    [...Deno.readDirSync(`/proc/${pid}/task`)].map(({ name }) => `/proc/${pid}/task/${name}`)
  );
  const ns = tasks.map((task) => Number(Deno.readTextFileSync(`${task}/schedstat`).split(" ")[0]));
  return ns.reduce((sum, each) => sum + each, 0) / 1e6;
}
