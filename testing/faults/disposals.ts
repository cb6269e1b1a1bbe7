/**
 * The checks of disposals: each ends in time, and so do the calls of its lock manager.
 *
 * @module
 */
import type { Call } from "./calls.ts";
import type { Report } from "./findings.ts";
import type { History, WorkerEvent } from "./history.ts";

/** The longest time in µs for a disposal and for its calls: 2 s, and what a frozen worker adds to it. */
const ENDS_WITHIN_US = 10_000_000;

/** Checks all disposals of a run. */
export function checkDisposals(history: History, calls: readonly Call[], report: Report): void {
  const begun = new Map<string, WorkerEvent>();
  const done = new Map<string, number>();
  for (const event of history.events) {
    if (event.kind === "disposing") begun.set(instanceOf(event), event);
    if (event.kind === "disposed") done.set(instanceOf(event), event.atUs);
  }
  const heardOfUs = new Map<string, number>();
  for (const { worker, atUs } of history.events) heardOfUs.set(worker, atUs);
  for (const [instance, event] of begun) {
    const { atUs, worker } = event;
    const isCrashed = history.crashed?.includes(worker);
    const endUs = done.get(instance) ?? (isCrashed ? heardOfUs.get(worker)! : Infinity);
    if (endUs - atUs <= ENDS_WITHIN_US) continue;
    const message = `A disposal of ${worker} did not end within ${ENDS_WITHIN_US} µs`;
    report.violations.add({ kind: "unfinished", atUs, message, events: [event] });
  }
  for (const call of calls) checkCall(call, begun.get(call.instance)?.atUs ?? Infinity, report);
}

function instanceOf({ worker, instance = 0 }: WorkerEvent): string {
  return `${worker}/${instance}`;
}

function checkCall(call: Call, disposedUs: number, report: Report): void {
  const { grantedUs, failedUs, worker, name, events } = call;
  if (grantedUs < Infinity && grantedUs >= disposedUs && call.useEndUs > grantedUs) {
    const message = `${worker} got a lease ${grantedUs - disposedUs} µs after its disposal`;
    report.violations.add({ kind: "late-grant", atUs: grantedUs, name, message, events });
  }
  if (failedUs < Infinity && failedUs - disposedUs > ENDS_WITHIN_US) {
    const message = `${worker}'s call ended ${failedUs - disposedUs} µs after its disposal`;
    report.violations.add({ kind: "unfinished", atUs: failedUs, name, message, events });
  }
}
