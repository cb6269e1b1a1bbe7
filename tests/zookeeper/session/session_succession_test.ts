import { assert, assertEquals, assertRejects } from "@std/assert";
import { SessionSuccession } from "../../../zookeeper/session/session_succession.ts";
import { ZooKeeperError } from "../../../zookeeper/connection/failures.ts";
import { FakeClock } from "../../../testing/core/fake_clock.ts";
import { FakeTransport, FakeTree, settle } from "../../../testing/zookeeper/fake_zookeeper.ts";

const CONNECT_TIMEOUT_MS = 5_000;

function newSuccession() {
  const clock = new FakeClock();
  const tree = new FakeTree();
  const transports: FakeTransport[] = [];
  const losses: string[] = [];
  const sessions = new SessionSuccession({
    clock,
    leases: { extendAll: () => {}, loseAll: (reason) => void losses.push(reason) },
    open: () => {
      const transport = new FakeTransport(tree);
      transport.state = "connecting";
      transports.push(transport);
      return transport;
    },
    transport: {
      listServers: () => Promise.resolve([]),
      tls: undefined,
      warnings: { warn: () => {} },
      sessionTimeoutMs: 10_000,
      requestTimeoutMs: undefined,
      unavailableAfterMs: CONNECT_TIMEOUT_MS,
      auth: undefined,
    },
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    rootPath: "/locks",
  });
  return { clock, transports, losses, sessions };
}

async function codeOf(session: Promise<unknown>): Promise<string> {
  return (await assertRejects(() => session, ZooKeeperError)).code;
}

Deno.test("SessionSuccession opens one session for all calls, and the next one when it is over", async () => {
  const { clock, transports, losses, sessions } = newSuccession();
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

Deno.test("SessionSuccession.current() rejects when no server accepts a session in time", async () => {
  const { clock, transports, sessions } = newSuccession();
  const code = codeOf(sessions.current());
  await clock.pass(CONNECT_TIMEOUT_MS);
  assertEquals(await code, "TIMEOUT");
  assert(transports[0]!.isDestroyed);
  assertEquals(clock.timers, 0);
});

Deno.test("SessionSuccession.current() rejects at once when the credentials are refused", async () => {
  const { clock, transports, sessions } = newSuccession();
  const code = codeOf(sessions.current());
  transports[0]!.become("refused");
  assertEquals(await code, "AUTH_FAILED");
  assert(transports[0]!.isDestroyed);
  assertEquals(clock.timers, 0);
});

Deno.test("SessionSuccession.current() rejects at once when no server can be connected to", async () => {
  const { clock, transports, sessions } = newSuccession();
  const opening = sessions.current();
  const cause = transports[0]!.connectError = new Error("its certificate has expired");
  transports[0]!.become("refused");
  const error = await assertRejects(() => opening, ZooKeeperError);
  assertEquals([error.code, error.cause], ["SETUP", cause]);
  assert(transports[0]!.isDestroyed);
  assertEquals(clock.timers, 0);
});

Deno.test("SessionSuccession.live() opens no session", async () => {
  const { transports, sessions } = newSuccession();
  assertEquals(sessions.live(), null);
  const opening = sessions.current();
  transports[0]!.become("connected");
  const session = await opening;
  transports[0]!.become("suspended");
  assertEquals(sessions.live(), session);
  session.giveUp();
  assertEquals([sessions.live(), transports.length], [null, 1]);
});

Deno.test("SessionSuccession.close() waits for a session that is being opened, for at most timeoutMs", async () => {
  for (const isAccepted of [true, false]) {
    const { clock, transports, sessions } = newSuccession();
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
    assertEquals(clock.timers, 0);
  }
});
