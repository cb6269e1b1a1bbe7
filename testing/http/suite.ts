/**
 * The behaviour that all frameworks share, on any strategy, with two server processes and real sockets.
 * The behaviour of one framework is tested in `tests/http/`.
 *
 * @module
 */
import type { FrameworkName } from "./frameworks.ts";
import { busySteps } from "./suite_busy.ts";
import { clientSteps } from "./suite_clients.ts";
import { lossSteps } from "./suite_loss.ts";
import { leftSteps, outageSteps } from "./suite_outage.ts";
import type { Place } from "./places.ts";
import { openStage } from "./stage.ts";

/** Registers the suite for one framework and one strategy. */
export function integrationSuite(
  framework: FrameworkName,
  strategy: string,
  openPlace: () => Promise<Place>,
): void {
  Deno.test(`${framework}Lock() with ${strategy}`, async (t) => {
    await using place = await openPlace();
    await using stage = await openStage(framework, place);
    const groups = [busySteps, clientSteps, lossSteps, outageSteps, leftSteps];
    for (const [name, test] of groups.flatMap((group) => group(stage))) {
      // The servers outlive a step, so leaks are only checked at the end of the test.
      const options = { sanitizeOps: false, sanitizeResources: false, sanitizeExit: false };
      await t.step({ name, ...options, fn: () => test(stage) });
    }
  });
}
