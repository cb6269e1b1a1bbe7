/**
 * The process behind `startFleet()`: its waiters contend for a lock until the time of the run is over.
 *
 * @module
 */
import process from "node:process";
import { nowUs } from "../../testing/processes/machine_clock.ts";
import { linesOf } from "../../testing/runtime/lines.ts";
import { print, scriptArgument, scriptInput } from "../../testing/runtime/processes.ts";
import { pause } from "../../testing/servers/wait.ts";
import { contenderOf, SETTINGS } from "../contenders/all.ts";
import type { OpenContender } from "../library/contender.ts";
import type { ContentionOrder } from "./contention.ts";

/** The grants of a run so far. */
class Ledger {
  readonly calledUs: number[] = [];
  readonly grantedUs: number[] = [];
  readonly releasedUs: number[] = [];
  readonly waiter: number[] = [];

  note(waiter: number, calledUs: number, grantedUs: number, releasedUs: number): void {
    this.calledUs.push(calledUs);
    this.grantedUs.push(grantedUs);
    this.releasedUs.push(releasedUs);
    this.waiter.push(waiter);
  }
}

/** One waiter. After the end it takes the lock once more, and so makes room for the others. */
async function wait(
  open: OpenContender,
  { name, holdMs }: ContentionOrder,
  ledger: Ledger,
  index: number,
  endUs: number,
): Promise<void> {
  for (;;) {
    const calledUs = nowUs();
    const hold = await open.acquire(name);
    const grantedUs = nowUs();
    const isOver = grantedUs > endUs;
    if (holdMs > 0 && !isOver) await pause(holdMs);
    ledger.note(index, calledUs, grantedUs, nowUs());
    await hold.release();
    if (isOver) return;
  }
}

async function contend(open: OpenContender, order: ContentionOrder): Promise<string> {
  const ledger = new Ledger();
  const cpu = process.cpuUsage();
  const endUs = nowUs() + order.runMs * 1_000;
  await Promise.all(Array.from(
    { length: order.waiters },
    (_, index) => wait(open, order, ledger, index, endUs),
  ));
  const { user, system } = process.cpuUsage(cpu);
  return JSON.stringify({ ...ledger, cpuUs: user + system });
}

async function main({ place }: { readonly place: string }): Promise<void> {
  const contenders = new Map<string, Promise<OpenContender>>();
  const opened = (id: string) => {
    const open = contenders.get(id) ?? contenderOf(id).open(place, SETTINGS);
    contenders.set(id, open);
    return open;
  };
  const orders = linesOf(scriptInput());
  for (let line; (line = await orders.next()) !== null;) {
    const order: ContentionOrder = JSON.parse(line);
    const answer = await opened(order.id).then((open) => contend(open, order))
      .catch((error) => JSON.stringify({ error: String(error) }));
    print(`${answer}\n`);
  }
}

if (import.meta.main) {
  globalThis.addEventListener("unhandledrejection", (event) => event.preventDefault());
  await main(scriptArgument());
  Deno.exit(0); // connections of some packages are still open
}
