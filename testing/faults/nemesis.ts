/**
 * Who does the faults, in an order drawn by the seed.
 *
 * @module
 */
import { nowUs } from "../processes/clock.ts";
import { pause } from "../servers/wait.ts";
import type { FaultEvent } from "./history.ts";
import type { Fault, FaultTable, Stage } from "./place.ts";

/** Longest rest in ms between two faults. */
const REST_MS = 400;

/** Does faults until the time is over, and tells of each; every one before any for the second time. */
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
