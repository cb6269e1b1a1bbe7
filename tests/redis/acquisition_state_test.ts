import { assertEquals } from "@std/assert";
import type { ManagedLease } from "../../core/lease/lease.ts";
import { AcquisitionState } from "../../redis/acquisition_state.ts";
import type { GrantMessage } from "../../redis/protocol/messages.ts";

const RECEIVED = { nowMs: 5, wallMs: 5 };
const LEASE = {} as ManagedLease;

function message(fencingToken: bigint): GrantMessage {
  return { kind: "grant", lockKey: "L", value: "a#0", serverMs: 1, claimMs: 3_000, fencingToken };
}

/** Each event, by name. */
const EVENTS = {
  sendAsk: (state: AcquisitionState) => state.sendAsk(),
  enqueue: (state: AcquisitionState) => state.enqueue(),
  requireAsk: (state: AcquisitionState) => state.requireAsk(),
  grant: (state: AcquisitionState) => state.grant(message(1n), RECEIVED),
  takeGrant: (state: AcquisitionState) => state.takeGrant(),
  voidGrant: (state: AcquisitionState) => state.voidGrant(),
  acquire: (state: AcquisitionState) => state.acquire(LEASE),
  deny: (state: AcquisitionState) => state.deny(),
};
type Event = keyof typeof EVENTS;

function after(...events: Event[]): AcquisitionState {
  const state = new AcquisitionState();
  for (const event of events) EVENTS[event](state);
  return state;
}

/** The phase in one word. For an ask: the validity of its answer. */
function phaseOf({ phase }: AcquisitionState): string {
  return phase.kind === "asking" ? phase.answer : phase.kind;
}

/** The events that lead to each phase. */
const PHASES: Record<string, Event[]> = {
  valid: [],
  outdated: ["requireAsk"],
  void: ["voidGrant"],
  queued: ["enqueue"],
  granted: ["grant"],
  acquired: ["acquire"],
  denied: ["deny"],
};

const TRANSITIONS: Record<string, Partial<Record<Event, string>>> = {
  valid: {
    enqueue: "queued",
    requireAsk: "outdated",
    grant: "granted",
    voidGrant: "void",
    acquire: "acquired",
    deny: "denied",
  },
  outdated: {
    sendAsk: "valid",
    grant: "granted",
    voidGrant: "void",
    acquire: "acquired",
    deny: "denied",
  },
  void: { sendAsk: "valid", grant: "granted", acquire: "acquired", deny: "denied" },
  queued: { requireAsk: "outdated", grant: "granted", voidGrant: "void" },
  granted: { takeGrant: "valid", voidGrant: "void" },
  acquired: {},
  denied: {},
};

Deno.test("AcquisitionState makes exactly the transitions of its table", () => {
  for (const [phase, events] of Object.entries(PHASES)) {
    assertEquals(phaseOf(after(...events)), phase);
    for (const event of Object.keys(EVENTS) as Event[]) {
      const expected = TRANSITIONS[phase]![event] ?? phase;
      assertEquals(phaseOf(after(...events, event)), expected, `${event} in ${phase}`);
    }
  }
});

Deno.test("AcquisitionState keeps the latest of two grants", () => {
  const state = after("grant");
  state.grant(message(2n), RECEIVED);
  assertEquals(state.phase, { kind: "granted", message: message(2n), received: RECEIVED });
});

Deno.test("AcquisitionState.takesAnswer is false after a grant message or a theft", () => {
  assertEquals(after().takesAnswer, true);
  assertEquals(after("requireAsk").takesAnswer, true);
  assertEquals(after("grant").takesAnswer, false);
  assertEquals(after("voidGrant").takesAnswer, false);
  assertEquals(after("voidGrant", "requireAsk").takesAnswer, false);
  assertEquals(after("voidGrant", "grant").takesAnswer, false);
  assertEquals(after("voidGrant", "sendAsk").takesAnswer, true);
});

Deno.test("AcquisitionState.changeOr() resolves with the answer unless the phase changes first", async () => {
  const never = new Promise<string>(() => {});
  const state = new AcquisitionState();
  assertEquals(await state.changeOr(Promise.resolve("answer")), "answer");
  const overtaken = state.changeOr(never);
  EVENTS.grant(state);
  assertEquals(await overtaken, undefined);
});

Deno.test("AcquisitionState.changeOr() keeps waiting when only the validity of the answer changes", async () => {
  const state = new AcquisitionState();
  const { promise, resolve } = Promise.withResolvers<string>();
  const answer = state.changeOr(promise);
  EVENTS.requireAsk(state);
  EVENTS.voidGrant(state);
  resolve("answer");
  assertEquals(await answer, "answer");
});

Deno.test("AcquisitionState.wake() ends a wait without a transition", async () => {
  const state = after("enqueue");
  const change = state.change();
  state.wake();
  await change;
  assertEquals(phaseOf(state), "queued");
});
