/**
 * Steps of the suite: leases that are lost while the handler runs or its response is sent.
 *
 * @module
 */
import { assertEquals, assertRejects } from "@std/assert";
import type { Stage, Step } from "./stage.ts";
import { assertProblem } from "./suite_busy.ts";

/** Returns the steps that may run at once. */
export function lossSteps({ framework }: Stage): Step[] {
  return [
    ["answers 503 when the lease is lost while the handler runs", lostInHandler],
    ["answers 503 when the handler runs longer than maxHoldMs", outlasts],
    ...framework === "lambda"
      ? []
      : [["breaks off a response when its lease is lost", breaksOff] as Step],
  ];
}

/** Returns the step in which a process is stopped for longer than the TTL, if there is one. */
export function stoppedSteps({ place }: Stage): Step[] {
  return place.redis
    ? [["answers 503 when the process was stopped for longer than the TTL", stopped]]
    : [];
}

async function lostInHandler(stage: Stage): Promise<void> {
  await Promise.all(["deaf", "heed"].map(async (mode) => {
    const { a, ask, place } = stage;
    const [key, id] = [`lost ${mode}`, `lost ${mode}`];
    const reply = ask(a, { path: "/busy", key, id, mode });
    await a.event(id, "entered");
    await place.lose(key);
    if (stage.framework !== "lambda") assertProblem(await reply, 503, "lease-lost");
    await a.event(id, "aborted");
    await a.open(id);
    await a.event(id, "left");
    assertProblem(await reply, 503, "lease-lost");
    await stage.untilFree(key);
  }));
}

async function outlasts(stage: Stage): Promise<void> {
  const { a, b, ask } = stage;
  const key = "outlasts";
  const reply = await ask(a, { path: "/brief", key, id: key, mode: "deaf" });
  assertProblem(reply, 503, "lease-lost");
  assertEquals(await a.events(key), ["entered", "aborted"], "the handler still runs");
  await stage.untilFree(key); // the answer does not wait for the release
  assertEquals((await ask(b, { path: "/busy", key })).status, 200);
  await a.open(key);
  await a.event(key, "left");
}

async function breaksOff(stage: Stage): Promise<void> {
  const { a, open, place } = stage;
  const key = "breaks off";
  const response = await open(a, { path: "/busy", key, id: key, mode: "stream" });
  assertEquals(response.status, 200);
  const reader = response.body!.getReader();
  await reader.read();
  await place.lose(key);
  await assertRejects(() => reader.read());
  await a.event(key, "aborted");
  await a.open(key);
  await stage.untilFree(key);
}

async function stopped(stage: Stage): Promise<void> {
  const { a, b, ask } = stage;
  const key = "stopped";
  const reply = ask(a, { path: "/busy", key, id: key, mode: "gate" }).catch((error) => error);
  await a.event(key, "entered");
  a.kill("SIGSTOP");
  try {
    await a.open(key); // takes effect when the process continues: the handler may end before any timer
    await stage.untilFree(key);
  } finally {
    a.kill("SIGCONT");
  }
  await a.event(key, "left");
  assertProblem(await reply, 503, "lease-lost");
  assertEquals((await ask(b, { path: "/busy", key })).status, 200);
}
