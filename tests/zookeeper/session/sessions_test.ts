import { assert, assertEquals, assertRejects } from "@std/assert";
import type { SessionLeases } from "../../../zookeeper/session/session.ts";
import { Sessions } from "../../../zookeeper/session/sessions.ts";
import { OutageBudget } from "../../../core/time/outage_budget.ts";
import { classifyFailure, ZooKeeperError } from "../../../zookeeper/connection/failures.ts";
import { countListeners } from "../../../testing/core/count_listeners.ts";
import { FakeClock } from "../../../testing/core/fake_clock.ts";
import {
  FakeTransport,
  FakeTree,
  ROOT_PATH,
  SETTINGS,
  settle,
} from "../../../testing/zookeeper/fake_zookeeper.ts";

const CONNECT_TIMEOUT_MS = SETTINGS.unavailableAfterMs;

function newSessions() {
  const clock = new FakeClock();
  const tree = new FakeTree();
  const transports: FakeTransport[] = [];
  const losses: string[] = [];
  const leases: SessionLeases = {
    clock,
    extendAll: () => {},
    loseAll: (reason) => void losses.push(reason),
  };
  const sessions = new Sessions(leases, ROOT_PATH, SETTINGS, () => {
    const transport = new FakeTransport(tree);
    transport.state = "connecting";
    transports.push(transport);
    return transport;
  });
  return { clock, transports, losses, sessions };
}

async function codeOf(session: Promise<unknown>): Promise<string> {
  return (await assertRejects(() => session, ZooKeeperError)).code;
}

Deno.test("Sessions opens one session for all calls, and the next one when it is over", async () => {
  const { clock, transports, losses, sessions } = newSessions();
  const [a, b] = [sessions.current(), sessions.current()];
  transports[0]!.become("connected");
  const first = await a;
  assertEquals([await b, await sessions.current()], [first, first]);
  // The one timer is the watch of the session on its server.
  assertEquals([transports.length, clock.timers, clock.held], [1, 1, 0]);
  // From here on the session itself listens to the transport.
  transports[0]!.become("expired");
  assert(first.isOver);
  assertEquals(losses, ["session-expired"]);
  const next = sessions.current();
  transports[1]!.become("connected");
  assert(await next !== first);
  await sessions.close(1_000);
});

Deno.test("Sessions.current() rejects when no server accepts a session in time", async () => {
  const { clock, transports, sessions } = newSessions();
  const code = codeOf(sessions.current());
  await clock.pass(CONNECT_TIMEOUT_MS);
  assertEquals(await code, "TIMEOUT");
  assert(transports[0]!.isDestroyed);
  assertEquals(clock.timers, 0);
});

Deno.test("Sessions.current() rejects at once when the credentials are refused", async () => {
  const { clock, transports, sessions } = newSessions();
  const code = codeOf(sessions.current());
  transports[0]!.become("refused");
  assertEquals(await code, "AUTH_FAILED");
  assert(transports[0]!.isDestroyed);
  assertEquals(clock.timers, 0);
});

Deno.test("Sessions.current() rejects at once when no server can be connected to", async () => {
  const { clock, transports, sessions } = newSessions();
  const opening = sessions.current();
  const cause = transports[0]!.connectError = new Error("its certificate has expired");
  transports[0]!.become("refused");
  const error = await assertRejects(() => opening, ZooKeeperError);
  assertEquals([error.code, error.cause], ["SETUP", cause]);
  assert(transports[0]!.isDestroyed);
  assertEquals(clock.timers, 0);
});

Deno.test("Sessions.live() opens no session", async () => {
  const { transports, sessions } = newSessions();
  assertEquals(sessions.live(), null);
  const opening = sessions.current();
  transports[0]!.become("connected");
  const session = await opening;
  transports[0]!.become("suspended");
  const { connectNows } = transports[0]!;
  assertEquals(sessions.live(), session);
  assertEquals(transports[0]!.connectNows, connectNows + 1);
  session.lose();
  assertEquals([sessions.live(), transports.length], [null, 1]);
});

Deno.test("Sessions.within() ends the outage of a call when the next session is open", async () => {
  const { clock, transports, sessions } = newSessions();
  const terms = { clock, service: "ZooKeeper", classify: classifyFailure };
  const { signal } = new AbortController();
  const budget = new OutageBudget(
    { ...terms, unavailableAfterMs: CONNECT_TIMEOUT_MS },
    "n",
    signal,
  );
  const opening = sessions.within(budget);
  await clock.pass(1_000);
  assert(budget.outageSinceMs !== null);
  transports[0]!.become("connected");
  await opening;
  assertEquals(budget.outageSinceMs, null);
  await sessions.close(0);
});

Deno.test("Sessions.within() leaves no listener when its budget ends before a session is open", async () => {
  const { clock, sessions } = newSessions();
  const { signal } = new AbortController();
  const listeners = countListeners(signal);
  const unavailableAfterMs = CONNECT_TIMEOUT_MS / 2;
  const terms = { clock, service: "ZooKeeper", unavailableAfterMs, classify: classifyFailure };
  const opening = sessions.within(new OutageBudget(terms, "n", signal));
  const late = assertRejects(() => opening, Error, "No answer in time");
  assertEquals(listeners(), 1);
  await clock.pass(unavailableAfterMs);
  await late;
  assertEquals(listeners(), 0);
  const closed = sessions.close(0);
  await clock.pass(1);
  await closed;
});

Deno.test("Sessions.close() waits for a session that is being opened, for at most timeoutMs", async () => {
  for (const isAccepted of [true, false]) {
    const { clock, transports, sessions } = newSessions();
    const opening = sessions.current();
    opening.catch(() => {});
    const closed = sessions.close(1_000);
    if (isAccepted) transports[0]!.become("connected");
    await settle();
    await clock.pass(1_000);
    await closed;
    if (isAccepted) assert((await opening).isOver);
    else assertEquals(await codeOf(opening), "SESSION_OVER");
    assert(transports[0]!.isDestroyed);
    assertEquals(await codeOf(sessions.current()), "SESSION_OVER");
    assertEquals([transports.length, clock.timers], [1, 0]);
  }
});

Deno.test("Sessions.admit() gives on the place of a call that aborts just before it is admitted", async () => {
  const { sessions } = newSessions();
  const { signal } = new AbortController();
  for (let i = 0; i < 128; i++) assertEquals(sessions.admit(signal), null);
  const leaving = new AbortController();
  const turn = sessions.admit(leaving.signal)!;
  leaving.abort(new Error("enough"));
  sessions.entered();
  await assertRejects(() => turn, Error, "enough");
  assertEquals(sessions.admit(signal), null);
  const next = sessions.admit(signal);
  assert(next !== null, "128 are admitted");
  sessions.entered();
  await next;
});
