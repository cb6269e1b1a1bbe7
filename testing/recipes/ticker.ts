/**
 * The process behind {@linkcode startTicker}: runs jobs once per tick, with a clock that is wrong and an
 * event loop that is blocked at times.
 *
 * Paces a workload: ticks come at moments of the clock, and jobs take their time.
 *
 * @module
 */
import { runOnce } from "../../recipes/mod.ts";
import { block } from "../conformance/bounds.ts";
import { openLock } from "../conformance/open_lock.ts";
import { nowUs } from "../processes/machine_clock.ts";
import { randomOf } from "../processes/random.ts";
import { print, scriptArgument } from "../runtime/processes.ts";
import { pause } from "../servers/wait.ts";
import type { TickerOptions, TickReport } from "./tickers.ts";

async function main(options: TickerOptions): Promise<void> {
  const { spec, everyMs, keepMs, jobs, withTick, clockMs, jobMs, blockMs, fromMs } = options;
  const random = randomOf(options.seed);
  const wall = Date.now;
  Date.now = () => wall() + clockMs;
  const tell = (what: TickReport["what"], index: number, more: Partial<TickReport> = {}) =>
    print(`${JSON.stringify({ what, index, atUs: nowUs(), ...more })}\n`);
  await using client = await openLock(spec);
  const running: Promise<void>[] = [];
  for (let index = options.firstTick; index < options.ticks; index++) {
    const tick = new Date(fromMs + index * everyMs);
    await pause(Math.max(0, tick.getTime() - Date.now()));
    if (random() < options.blockPart) block(random() * blockMs);
    tell("calls", index, { lateMs: Math.abs(Date.now() - tick.getTime()) });
    const run = runOnce(
      client.lock,
      `job-${index % jobs}`,
      withTick ? { keepMs, tick } : { keepMs },
      async () => {
        tell("runs", index);
        await pause(random() * jobMs);
        tell("ran", index);
      },
    );
    running.push(run.then(() => {}, (error) => tell("failed", index, { message: String(error) })));
  }
  await Promise.all(running);
  await pause(keepMs); // where the mark ends with its process, others would run the last ticks again
}

if (import.meta.main) await main(scriptArgument());
