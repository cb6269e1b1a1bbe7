/**
 * The process behind {@linkcode startPuppet}: takes locks on the order of a test.
 *
 * @module
 */
import { openLock } from "../conformance/open_lock.ts";
import type { DistributedLock, LeaseLostError } from "../../mod.ts";
import { pause } from "../servers/wait.ts";
import { linesOf } from "../runtime/lines.ts";
import { print, scriptArgument, scriptInput } from "../runtime/processes.ts";
import { nowUs } from "./machine_clock.ts";
import type { Order, PuppetEvent, PuppetOptions } from "./puppets.ts";

type Tell = (event: Omit<PuppetEvent, "id" | "atUs">) => void;

/** Takes the lock, holds it, releases it, and reports each step. */
async function take(
  lock: DistributedLock,
  { name, holdMs }: Order,
  tell: Tell,
): Promise<void> {
  let hasWaited = false;
  const onWait = () => {
    if (!hasWaited) tell({ what: "waits" });
    hasWaited = true;
  };
  const lease = await lock.acquire(name, { onWait });
  tell({ what: "granted", token: String(lease.fencingToken) });
  const { signal } = lease;
  signal.addEventListener("abort", () => {
    tell({ what: "lost", reason: (signal.reason as LeaseLostError).reason });
  });
  await pause(holdMs, signal);
  if (lease.remainingMs > 0) tell({ what: "leaves" });
  await lease.release();
}

async function main({ spec }: PuppetOptions): Promise<void> {
  await using client = await openLock(spec);
  const orders = linesOf(scriptInput());
  const running: Promise<void>[] = [];
  for (let line; (line = await orders.next()) !== null;) {
    const order: Order = JSON.parse(line);
    running.push(take(client.lock, order, (step) => {
      const event: PuppetEvent = { id: order.id, atUs: nowUs(), ...step };
      print(`${JSON.stringify(event)}\n`);
    }));
  }
  await Promise.all(running);
}

if (import.meta.main) await main(scriptArgument());
