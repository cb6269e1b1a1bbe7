/**
 * The process behind {@linkcode startLine}: many calls that wait for one lock, each once.
 *
 * @module
 */
import type { DistributedLock } from "../../mod.ts";
import { openLock } from "../conformance/open_lock.ts";
import { nowUs } from "../processes/clock.ts";
import { linesOf } from "../runtime/lines.ts";
import { print, scriptArgument, scriptInput } from "../runtime/processes.ts";
import type { LineGrant, LineOptions, LineReport } from "./lines.ts";

/** Grants that are reported at once. */
const BATCH = 50;

/** Collects the reports of all calls. */
class Reports {
  readonly #expected: number;
  #told = 0;
  #grants: LineGrant[] = [];

  constructor(expected: number) {
    this.#expected = expected;
  }

  send(report: LineReport): void {
    print(`${JSON.stringify(report)}\n`);
  }

  /** A call has learned whether it waits. */
  told(): void {
    if (++this.#told === this.#expected) this.send({ kind: "queued", atUs: nowUs() });
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
  const reports = new Reports(waiters);
  const orders = linesOf(scriptInput());
  reports.send({ kind: "ready" });
  await orders.next();
  await Promise.all(Array.from({ length: waiters }, () => wait(client.lock, name, reports)));
  reports.flush();
  reports.send({ kind: "finished" });
  while (await orders.next() !== null);
}

if (import.meta.main) await main(scriptArgument());
