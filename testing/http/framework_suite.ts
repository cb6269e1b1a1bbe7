/**
 * The behaviour that all frameworks share, on any strategy, with two server processes and real sockets.
 * The behaviour of one framework is tested in `tests/http/`.
 *
 * @module
 */
import type { FrameworkName } from "./frameworks.ts";
import type { Protocol } from "./handler.ts";
import { busySteps } from "./suite_busy.ts";
import { clientSteps } from "./suite_clients.ts";
import { lossSteps, stoppedSteps } from "./suite_loss.ts";
import { leftSteps, outageSteps } from "./suite_outage.ts";
import type { Place } from "./places.ts";
import { openStage, type Stage, type Step } from "./stage.ts";

const NEST: Partial<Record<FrameworkName, string>> = {
  "nestjs": "@Lock() of NestJS",
  "nestjs-fastify": "@Lock() of NestJS on Fastify",
};

const IS_SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));

/** The steps of a group run at once if most of them only wait; the groups run one after the other. */
interface Group {
  readonly steps: (stage: Stage) => Step[];
  readonly isConcurrent?: boolean;
}

const BUSY: Group = { steps: busySteps };
const CLIENTS_AND_LOSSES: Group = {
  steps: (stage) => [...clientSteps(stage), ...lossSteps(stage)],
  isConcurrent: true,
};
const STOPPED: Group = { steps: stoppedSteps };
const OUTAGE: Group = { steps: outageSteps };
const LEFT: Group = { steps: leftSteps };
const ALL: readonly Group[] = [BUSY, CLIENTS_AND_LOSSES, STOPPED, OUTAGE, LEFT];

/** Registers the suite for one framework and one strategy. */
export function integrationSuite(
  framework: FrameworkName,
  strategy: string,
  openPlace: () => Promise<Place>,
  { isSoakOnly = false }: { readonly isSoakOnly?: boolean } = {},
): void {
  register(
    `${NEST[framework] ?? `${framework}Lock()`} with ${strategy}`,
    framework,
    "http/1.1",
    openPlace,
    ALL,
    isSoakOnly && !IS_SOAK,
  );
}

/** The frameworks that can serve HTTP/2: API Gateway does that for Lambda. */
const HTTP2_FRAMEWORKS: readonly FrameworkName[] = ["koa", "fastify", "fetch", "hono"];

/**
 * Registers the suite over HTTP/2. An ordinary run has the steps in which the protocols differ, for some
 * frameworks; with `HOLDFAST_SOAK` it has all steps, for all of them.
 */
export function http2Suite(
  ordinary: readonly FrameworkName[],
  strategy: string,
  openPlace: () => Promise<Place>,
): void {
  const groups = IS_SOAK ? ALL : [CLIENTS_AND_LOSSES, LEFT];
  for (const framework of IS_SOAK ? HTTP2_FRAMEWORKS : ordinary) {
    const title = `${framework}Lock() with ${strategy} over HTTP/2`;
    register(title, framework, "http/2", openPlace, groups);
  }
}

function register(
  title: string,
  framework: FrameworkName,
  protocol: Protocol,
  openPlace: () => Promise<Place>,
  groups: readonly Group[],
  isSkipped = false,
): void {
  const name = isSkipped ? `${title} [soak only]` : title;
  Deno.test({ name, ignore: isSkipped }, async (t) => {
    await using place = await openPlace();
    await using stage = await openStage(framework, place, protocol);
    // The servers outlive a step, so leaks are only checked at the end of the test.
    const options = { sanitizeOps: false, sanitizeResources: false, sanitizeExit: false };
    for (const { steps, isConcurrent = false } of groups) {
      const run = ([name, test]: Step) => t.step({ name, ...options, fn: () => test(stage) });
      if (isConcurrent) await Promise.all(steps(stage).map(run));
      else for (const step of steps(stage)) await run(step);
    }
  });
}
