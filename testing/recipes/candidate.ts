/**
 * The process behind {@linkcode startCandidate}: leads when it can, and claims so in short intervals.
 *
 * @module
 */
import { LeaseLostError } from "../../mod.ts";
import { lead } from "../../recipes/mod.ts";
import { openLock } from "../conformance/open_lock.ts";
import { nowUs } from "../processes/machine_clock.ts";
import { inputEnd, print, scriptArgument } from "../runtime/processes.ts";
import { pause } from "../servers/wait.ts";
import type { CandidateOptions, CandidateReport } from "./candidates.ts";

const CLAIM_EVERY_MS = 10;

async function main({ spec }: CandidateOptions): Promise<void> {
  const tell = (report: Omit<CandidateReport, "atUs">) =>
    print(`${JSON.stringify({ ...report, atUs: nowUs() })}\n`);
  await using client = await openLock(spec);
  const stop = new AbortController();
  inputEnd().then(() => stop.abort());
  let token = "";
  // After a freeze, the timer may run twice right before that of the loss, which is overdue, too: in the round
  // of timers that was frozen, and in the next one. So the turn before the last two counts.
  const turnsUs = [nowUs(), nowUs(), nowUs()];
  const turns = setInterval(() => {
    turnsUs.shift();
    turnsUs.push(nowUs());
  }, CLAIM_EVERY_MS / 2);
  await lead(client.lock, "main", async (lease, signal) => {
    while (!signal.aborted) {
      // The clock is read first: a suspension in between makes the claim shorter, not longer.
      const startUs = nowUs();
      const { remainingMs } = lease;
      if (remainingMs > 0) tell({ what: "claims", token, untilUs: startUs + remainingMs * 1_000 });
      await pause(CLAIM_EVERY_MS, signal);
    }
  }, {
    signal: stop.signal,
    onChange(change) {
      if (change.state === "leading") token = String(change.lease.fencingToken);
      const isLost = change.state === "lost";
      const reason = isLost && change.reason instanceof LeaseLostError
        ? change.reason.reason
        : "ended";
      tell({ what: change.state, token, ...isLost ? { reason, turnUs: turnsUs[0]! } : {} });
    },
  });
  clearInterval(turns);
}

if (import.meta.main) await main(scriptArgument());
