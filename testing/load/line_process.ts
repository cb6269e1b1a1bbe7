/**
 * The process behind {@linkcode startLine}: many calls that wait for one lock, each once.
 *
 * @module
 */
import process from "node:process";
import type { DistributedLock } from "../../mod.ts";
import { openLock } from "../conformance/open_lock.ts";
import { nowUs } from "../processes/machine_clock.ts";
import { linesOf } from "../runtime/lines.ts";
import { print, scriptArgument, scriptInput } from "../runtime/processes.ts";
import type { LineCost, LineGrant, LineOptions, LineReport } from "./waiting_lines.ts";

/** Grants that are reported at once. */
const BATCH = 50;

/** How often in ms the event loop is checked. */
const GAP_CHECK_MS = 5;

/** Measures the costs of the calls. */
class CostMeter {
  readonly #startKb = memoryKb();
  #longestGapMs = 0;
  #last = moment();
  readonly #timer = setInterval(() => {
    const now = moment();
    const elapsedMs = now.nowMs - this.#last.nowMs - GAP_CHECK_MS;
    // On a busy machine, the process often waits for a processor. That is not a gap of its own.
    const gapMs = Math.min(elapsedMs, now.cpuMs - this.#last.cpuMs);
    this.#longestGapMs = Math.max(this.#longestGapMs, gapMs);
    this.#last = now;
  }, GAP_CHECK_MS);

  read(): LineCost {
    return { longestGapMs: this.#longestGapMs, memoryKb: memoryKb() - this.#startKb };
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

function moment(): { nowMs: number; cpuMs: number } {
  const { user, system } = process.cpuUsage();
  return { nowMs: performance.now(), cpuMs: (user + system) / 1_000 };
}

function memoryKb(): number {
  return Math.round(process.memoryUsage().rss / 1_024);
}

/** Collects the reports of all calls. */
class Reports {
  readonly #expected: number;
  readonly #cost: CostMeter;
  #told = 0;
  #grants: LineGrant[] = [];

  constructor(expected: number, cost: CostMeter) {
    this.#expected = expected;
    this.#cost = cost;
  }

  send(report: LineReport): void {
    print(`${JSON.stringify(report)}\n`);
  }

  /** A call has learned whether it waits. */
  told(): void {
    if (++this.#told === this.#expected) {
      this.send({ kind: "queued", atUs: nowUs(), cost: this.#cost.read() });
    }
  }

  granted(grant: LineGrant): void {
    if (this.#grants.push(grant) >= BATCH) this.flush();
  }

  flush(): void {
    if (this.#grants.length > 0) this.send({ kind: "granted", grants: this.#grants });
    this.#grants = [];
  }
}

/** One call: waits, and releases the lock at once. */
async function wait(lock: DistributedLock, name: string, reports: Reports): Promise<void> {
  let isTold = false;
  const onWait = () => {
    if (!isTold) reports.told();
    isTold = true;
  };
  try {
    const lease = await lock.acquire(name, { onWait });
    onWait();
    const { ownerId, fencingToken, remainingMs } = lease;
    reports.granted({ ownerId, token: String(fencingToken), isValid: remainingMs > 0 });
    await lease.release();
  } catch (error) {
    onWait();
    reports.send({ kind: "rejected", text: String(error) });
  }
}

async function main({ spec, name, waiters }: LineOptions): Promise<void> {
  await using client = await openLock(spec);
  const cost = new CostMeter();
  const reports = new Reports(waiters, cost);
  const orders = linesOf(scriptInput());
  reports.send({ kind: "ready" });
  await orders.next();
  await Promise.all(Array.from({ length: waiters }, () => wait(client.lock, name, reports)));
  reports.flush();
  reports.send({ kind: "finished", cost: cost.read() });
  cost.stop();
  while (await orders.next() !== null);
}

if (import.meta.main) await main(scriptArgument());
