import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { check, type Contrast, type Run } from "../../examples/demo/checks.ts";
import type { Event } from "../../examples/demo/history.ts";
import { report } from "../../examples/demo/report.ts";

const ACCOUNT = { balance: 4, deposits: [2, 2], lastToken: 13n };
const CONTRAST: Contrast = { rounds: 2, account: { ...ACCOUNT, balance: 3 }, failures: [] };

/** Workers 1 and 2 in turns, 2 rounds each, each hold 5 ms long. `change` and `plant` add violations. */
function makeRun(change: Partial<Run> = {}, plant: (event: Event) => Event | null = (e) => e): Run {
  const events: Event[] = [];
  for (let turn = 0; turn < 4; turn++) {
    const [worker, round, atMs] = [1 + turn % 2, 1 + Math.floor(turn / 2), 1_000 + 10 * turn];
    const granted = { event: "granted", token: `${10 + turn}`, waitedMs: 1, worker } as const;
    events.push({ ...granted, round, atMs });
    events.push({ event: "finished", worker, round, atMs: atMs + 5 });
  }
  const planted = events.map(plant).filter((event) => event !== null);
  return {
    workers: 2,
    rounds: 2,
    kill: false,
    events: planted,
    account: ACCOUNT,
    failures: [],
    ...change,
  };
}

function violations(run: Run, contrast = CONTRAST): string[] {
  return check(run, contrast).filter(({ isGood }) => !isGood).map(({ text }) => text);
}

/** True for worker 1 in its second round. */
function isVictim(event: Event): boolean {
  return event.worker === 1 && event.round === 2;
}

function killed(event: Event): Event | null {
  if (!isVictim(event) || event.event !== "finished") return event;
  return { event: "killed", worker: 1, round: 2, atMs: event.atMs };
}

Deno.test("check() finds no violation in a good run", () => {
  assertEquals(violations(makeRun()), []);
  const touching = makeRun(
    {},
    (event) => event.event === "finished" ? { ...event, atMs: event.atMs + 5 } : event,
  );
  assertEquals(violations(touching), []);
});

Deno.test("check() reports a wrong balance", () => {
  for (const balance of [3, 5]) {
    const account = { ...ACCOUNT, balance };
    assertEquals(violations(makeRun({ account })), [`the balance is ${balance}, but should be 4`]);
  }
});

Deno.test("check() reports a deposit that was counted for another worker", () => {
  const account = { ...ACCOUNT, deposits: [1, 3] };
  assertEquals(violations(makeRun({ account })), [
    "the account shows 1 deposit of worker 1, not 2",
    "the account shows 3 deposits of worker 2, not 2",
  ]);
});

Deno.test("check() reports holds that overlap", () => {
  const run = makeRun(
    {},
    (event) =>
      isVictim(event) && event.event === "granted" ? { ...event, atMs: event.atMs - 6 } : event,
  );
  assertEquals(violations(run), ["1 hold overlaps another, first workers 2 and 1"]);
});

Deno.test("check() reports a hold within another, even with a third one in between", () => {
  const run = makeRun(
    {},
    (event) =>
      event.event === "finished" && event.worker === 1 && event.round === 1
        ? { ...event, atMs: 1_100 }
        : event,
  );
  assertEquals(violations(run), ["3 holds overlap another, first workers 1 and 2"]);
});

Deno.test("check() reports a fencing token that does not grow", () => {
  for (const token of ["11", "9"]) {
    const run = makeRun(
      {},
      (event) => isVictim(event) && event.event === "granted" ? { ...event, token } : event,
    );
    assertEquals(violations(run), [`fencing token ${token} was granted after 11`]);
  }
});

Deno.test("check() reports a worker that failed, with the lock and without", () => {
  assertEquals(violations(makeRun({ failures: ["worker 1 fell"] })), ["worker 1 fell"]);
  assertEquals(violations(makeRun(), { ...CONTRAST, failures: ["worker 2 fell"] }), [
    "worker 2 fell",
  ]);
});

Deno.test("check() accepts the last round of a killed worker once or not at all", () => {
  for (const [deposits, balance] of [[1, 3], [2, 4]] as const) {
    const account = { ...ACCOUNT, balance, deposits: [deposits, 2] };
    assertEquals(violations(makeRun({ kill: true, account }, killed)), []);
  }
  for (const [deposits, balance] of [[0, 2], [3, 5]] as const) {
    const account = { ...ACCOUNT, balance, deposits: [deposits, 2] };
    assertEquals(violations(makeRun({ kill: true, account }, killed)).length, 2);
  }
});

Deno.test("check() reports a kill that did not happen or that stopped the other workers", () => {
  assertEquals(violations(makeRun({ kill: true })), [
    "no worker was killed, though one should have been",
  ]);
  const account = { ...ACCOUNT, balance: 2, deposits: [1, 1] };
  const run = makeRun(
    { kill: true, account },
    (event) => event.worker === 2 && event.round === 2 ? null : killed(event),
  );
  const found = violations(run);
  assert(found.includes("worker 2 has finished only 1 round after the kill"), found.join("; "));
  assert(found.includes("the balance is 2, but should be 3"), found.join("; "));
});

Deno.test("report() shows violations", () => {
  const run = makeRun({ account: { ...ACCOUNT, balance: 3 } });
  const text = report("file", { run, contrast: CONTRAST, findings: check(run, CONTRAST) }).join(
    "\n",
  );
  assertStringIncludes(text, "  FAILED  the balance is 3, but should be 4");
  assertStringIncludes(text, "          4          3   WRONG");
  assertStringIncludes(text, "          4          3   1 update lost");
});

Deno.test("report() shows what followed a kill", () => {
  const run = makeRun(
    { kill: true, account: { ...ACCOUNT, balance: 3, deposits: [1, 2] } },
    killed,
  );
  const text = report("redis", { run, contrast: CONTRAST, findings: check(run, CONTRAST) }).join(
    "\n",
  );
  assertStringIncludes(text, "Kill: worker 1 got SIGKILL in its round 2, while it held the lock\n");
  assertStringIncludes(text, "It had finished 1 round; this round is not in the account\n");
  assertStringIncludes(text, "The next grant came 5.0 ms later; the dead holder's lease");
  assertStringIncludes(text, "1 worker waited for it, up to 1.0 ms each\n");
});

Deno.test("report() has no timeline when no lease was granted", () => {
  const run = makeRun({ events: [], failures: ["worker 1 fell", "worker 2 fell"] });
  const text = report("file", { run, contrast: CONTRAST, findings: check(run, CONTRAST) }).join(
    "\n",
  );
  assert(!text.includes("│"));
  assertStringIncludes(text, "  FAILED  worker 1 fell");
});
