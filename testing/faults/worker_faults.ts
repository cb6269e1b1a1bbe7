/**
 * Faults of worker processes.
 *
 * @module
 */
// Paces a workload: a worker is stopped for a random part of its TTL.
import { pause } from "../servers/wait.ts";
import type { FaultTable, Stage } from "./place.ts";

/** Draws a worker; returns its number. */
export function anyWorker({ fleet, pick }: Stage): number {
  return pick(Array.from({ length: fleet.size }, (_, i) => i));
}

/** Faults of any worker. */
export const WORKER_FAULTS: FaultTable = {
  "worker-kill": {
    run(stage) {
      const worker = anyWorker(stage);
      const target = stage.fleet.nameOf(worker);
      stage.fleet.kill(worker, "SIGKILL");
      return Promise.resolve(target);
    },
  },
  "worker-freeze": {
    async run(stage) {
      const worker = anyWorker(stage);
      const target = stage.fleet.nameOf(worker);
      stage.fleet.kill(worker, "SIGSTOP");
      await pause(stage.place.ttlMs * (0.3 + stage.random() * 1.5));
      stage.fleet.kill(worker, "SIGCONT");
      return target;
    },
  },
};

/** Faults of workers whose wall clocks can be set. */
export const WORKER_CLOCK_FAULTS: FaultTable = {
  "worker-clock": {
    async run(stage) {
      const worker = anyWorker(stage);
      const clock = stage.fleet.clocks[worker]!;
      clock.set((stage.random() - 0.5) * 10_000);
      await pause(stage.random() * stage.place.ttlMs);
      return stage.fleet.nameOf(worker);
    },
  },
};
