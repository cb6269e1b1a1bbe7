/**
 * The nemesis: causes faults, one after the other, in an order drawn from the seed.
 *
 * @module
 */
// Paces a workload: the workers rest between two faults.
import { nowUs } from "../processes/machine_clock.ts";
import { pause } from "../servers/wait.ts";
import type { FaultEvent } from "./history.ts";
import type { Fault, FaultTable, Stage } from "./place.ts";

/** The longest pause in ms between two faults. */
const REST_MS = 400;

/**
 * Causes faults until `untilUs` and reports each one. All kinds occur once before any occurs again.
 */
export async function harass(
  stage: Stage,
  faults: FaultTable,
  untilUs: number,
  tell: (event: FaultEvent) => void,
): Promise<FaultEvent[]> {
  const events: FaultEvent[] = [];
  let bag: [string, Fault][] = [];
  while (nowUs() < untilUs && Object.keys(faults).length > 0) {
    if (bag.length === 0) bag = shuffled(Object.entries(faults), stage.random);
    const event = await done(...bag.pop()!, stage);
    events.push(event);
    tell(event);
    await pause(stage.random() * REST_MS);
  }
  return events;
}

async function done(name: string, fault: Fault, stage: Stage): Promise<FaultEvent> {
  const atUs = nowUs();
  const outcome = await fault.run(stage);
  const { destructive = false, parks } = fault;
  return {
    ...{ atUs, untilUs: nowUs(), fault: name, destructive },
    ...parks !== undefined && { parks },
    ...typeof outcome === "string" ? { target: outcome } : outcome,
  };
}

function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const left = [...items];
  const drawn: T[] = [];
  while (left.length > 0) drawn.push(...left.splice(Math.floor(random() * left.length), 1));
  return drawn;
}
