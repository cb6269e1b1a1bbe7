/**
 * Steps of the suite: many requests for one lock, and requests without a valid key.
 *
 * @module
 */
import { assert, assertEquals, assertGreaterOrEqual } from "@std/assert";
import { type Hold, holdOf, type Reply, type Stage, type Step } from "./stage.ts";

const REQUESTS = 200;
const ROUNDS = Deno.env.get("HOLDFAST_SOAK") ? 10 : 1;

/** Returns the steps. */
export function busySteps(): Step[] {
  return [
    [`handles one of ${REQUESTS} requests and answers 409 to the others while it runs`, oneOfMany],
    [`never runs the handler twice at once when ${REQUESTS} requests race`, race],
    [`handles ${REQUESTS} waiting requests one by one`, allWait],
    ["answers 423 when busyStatus is 423", locked],
    ["answers 409 when waitMs is over", shortWait],
    ["runs the handler without a lock when there is no key", noKey],
    ["answers 400 to a key that no lock can have", badKeys],
  ];
}

/** Asserts that a reply is a problem of this status and kind, and returns it. */
export function assertProblem({ status, headers, text }: Reply, expected: number, kind: string) {
  const mediaType = headers.get("content-type")?.split(";")[0]; // Fastify adds a charset
  assertEquals([status, mediaType], [expected, "application/problem+json"]);
  const problem = JSON.parse(text);
  assertEquals(problem.status, expected);
  assert(problem.type.endsWith(kind), problem.type);
  return problem;
}

function assertBusy(reply: Reply, status = 409): void {
  const { retryAfterMs } = assertProblem(reply, status, "busy");
  const retryAfter = Number(reply.headers.get("retry-after"));
  assertGreaterOrEqual(retryAfter, 1);
  assert(Math.abs(retryAfter - retryAfterMs / 1_000) <= 1, `${retryAfter} s, ${retryAfterMs} ms`);
}

/** Asserts that holds never overlap and that their tokens grow. */
function assertOneByOne(holds: readonly Hold[]): void {
  const sorted = holds.toSorted((one, other) => one.token - other.token);
  for (const [i, { token, held: [fromUs] }] of sorted.entries()) {
    const before = sorted[i - 1];
    if (before === undefined) continue;
    assert(token > before.token, "no token is granted twice");
    assertGreaterOrEqual(fromUs, before.held[1], "nobody else is in the handler");
  }
}

/** Returns the server for a request. A Lambda instance whose handler holds the lock answers nobody. */
function serverOf({ framework, a, b }: Stage, i: number) {
  return framework === "lambda" || i % 2 === 0 ? b : a;
}

async function oneOfMany(stage: Stage): Promise<void> {
  const { a, ask } = stage;
  const key = "one of many";
  const first = ask(a, { path: "/busy", key, id: "first", mode: "gate" });
  await a.event("first", "entered");
  const others = await Promise.all(Array.from({ length: REQUESTS - 1 }, (_, i) => {
    return ask(serverOf(stage, i), { path: "/busy", key, id: "one of others" });
  }));
  for (const reply of others) assertBusy(reply);
  await a.open("first");
  assertEquals((await first).status, 200);
  for (const server of [a, stage.b]) {
    assertEquals(await server.events("one of others"), [], "no other request was handled");
  }
}

async function race(stage: Stage): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) {
    const id = `race ${round}`;
    const replies = await Promise.all(Array.from({ length: REQUESTS }, (_, i) => {
      return stage.ask(i % 2 ? stage.a : stage.b, { path: "/busy", key: "race", id });
    }));
    const [done, others] = [200, 409].map((code) => replies.filter((it) => it.status === code));
    assertEquals(done!.length + others!.length, REQUESTS);
    assertGreaterOrEqual(done!.length, 1);
    others!.forEach((reply) => assertBusy(reply));
    assertOneByOne(done!.map(holdOf));
    const events = [...await stage.a.events(id), ...await stage.b.events(id)];
    assertEquals(events.filter((what) => what === "entered").length, done!.length);
  }
}

async function allWait(stage: Stage): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) {
    const replies = await Promise.all(Array.from({ length: REQUESTS }, (_, i) => {
      return stage.ask(i % 2 ? stage.a : stage.b, { path: "/patient", key: "all wait" });
    }));
    assertEquals(replies.map(({ status }) => status), Array(REQUESTS).fill(200));
    assertOneByOne(replies.map(holdOf));
    if (stage.framework === "lambda") continue; // its handlers make their own headers
    for (const reply of replies) {
      assertEquals(Number(reply.headers.get("fencing-token")), holdOf(reply).token);
    }
  }
}

async function locked({ a, b, ask }: Stage): Promise<void> {
  const key = "locked";
  const first = ask(a, { path: "/locked", key, id: "locked", mode: "gate" });
  await a.event("locked", "entered");
  assertBusy(await ask(b, { path: "/locked", key }), 423);
  await a.open("locked");
  assertEquals((await first).status, 200);
}

async function shortWait(stage: Stage): Promise<void> {
  const { a, b, ask } = stage;
  const key = "short";
  const first = ask(a, { path: "/busy", key, id: "short", mode: "gate" });
  await a.event("short", "entered");
  const startMs = performance.now();
  assertBusy(await ask(b, { path: "/short", key, id: "too late" }));
  assertGreaterOrEqual(performance.now() - startMs, 199);
  await stage.untilWaiting(b, key, 0);
  await a.open("short");
  assertEquals((await first).status, 200);
  await stage.untilFree(key);
  assertEquals(await b.events("too late"), []);
}

async function noKey({ a, b, ask }: Stage): Promise<void> {
  const first = ask(a, { path: "/busy", id: "no key", mode: "gate" });
  await a.event("no key", "entered");
  const { status, text } = await ask(b, { path: "/busy" });
  assertEquals([status, JSON.parse(text).token], [200, null]);
  await a.open("no key");
  assertEquals((await first).status, 200);
}

async function badKeys({ a, ask, place }: Stage): Promise<void> {
  const keys = ["", "x".repeat(1_001), ...place.redis ? ["holdfast:q"] : []];
  for (const path of ["/busy", "/patient", "/proceed"]) {
    for (const key of keys) {
      assertProblem(await ask(a, { path, key, id: "bad key" }), 400, "bad-request");
    }
  }
  assertEquals(await a.events("bad key"), []);
}
