/**
 * The cost of a killed holder and of a killed waiter to the next waiter.
 *
 * @module
 */
import { nowUs } from "../../testing/processes/machine_clock.ts";
import { pause } from "../../testing/servers/wait.ts";
import { type Contender, idOf, type OpenOptions } from "../library/contender.ts";
import { type Holder, type HolderOptions, startHolder } from "../processes/holder.ts";

/** The measured quantities. */
export const CRASH_MEASURES = {
  holder: "ms from the kill of the holder to the next grant",
  waiter: "ms from the release to the next grant when the first waiter was killed",
} as const;

/** How long processes wait before something happens to them. */
const SETTLE_MS = 300;
/** More processes at once would only wait for each other. */
const BOUND_MS = 30_000;

/** Kills a holder while another process waits. Resolves with the ms until that one is granted the lock. */
export async function killHolder(
  contender: Contender,
  place: string,
  settings: OpenOptions,
): Promise<number> {
  return await withHolders(contender, { place, settings }, 2, async ([holder, waiter], name) => {
    await holder!.ask(name);
    await holder!.granted();
    await waiter!.ask(name);
    await pause(SETTLE_MS);
    const killedUs = nowUs();
    await holder!.kill();
    return (await grantOf(waiter!) - killedUs) / 1_000;
  });
}

/** Kills the first of two waiters, then releases the lock. Resolves with the ms until the other has it. */
export async function killWaiter(
  contender: Contender,
  place: string,
  settings: OpenOptions,
): Promise<number> {
  return await withHolders(contender, { place, settings }, 3, async (processes, name) => {
    const [holder, victim, waiter] = processes as [Holder, Holder, Holder];
    await holder.ask(name);
    await holder.granted();
    for (const each of [victim, waiter]) {
      await each.ask(name);
      await pause(SETTLE_MS);
    }
    await victim.kill();
    const releasedUs = await holder.release();
    return (await grantOf(waiter) - releasedUs) / 1_000;
  });
}

/** NaN if the lock is not granted within a bound. */
function grantOf(holder: Holder): Promise<number> {
  return Promise.race([holder.granted(), pause(BOUND_MS).then(() => NaN)]);
}

async function withHolders(
  contender: Contender,
  options: Omit<HolderOptions, "id">,
  count: number,
  run: (holders: readonly Holder[], name: string) => Promise<number>,
): Promise<number> {
  await using stack = new AsyncDisposableStack();
  const id = idOf(contender);
  const starts = Array.from({ length: count }, () => startHolder({ ...options, id }));
  const holders: Holder[] = [];
  for (const start of starts) holders.push(stack.use(await start));
  return await run(holders, `crash:${crypto.randomUUID()}`);
}
