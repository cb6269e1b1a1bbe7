/** How an inbox subscribes: the port is one whose server never answers, time is that of the test. */
import { assert, assertEquals } from "@std/assert";
import type { RedisClient } from "../../../redis/client.ts";
import { Inbox } from "../../../redis/waiting/inbox.ts";
import { FakeClock, settle } from "../../../testing/core/fake_clock.ts";

function silentPort() {
  const attempts: AbortSignal[] = [];
  const client: RedisClient = {
    epoch: 0,
    cluster: false,
    send: () => new Promise(() => {}),
    subscribe(_channel, _onMessage, _onSubscribed, signal) {
      attempts.push(signal);
      return new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(new Error("Connection is closed.")));
      });
    },
  };
  return { client, attempts };
}

function open(client: RedisClient) {
  const clock = new FakeClock();
  /** Whether it listens, and whether it is mute, at each change. */
  const changes: [listens: boolean, isMute: boolean][] = [];
  const listener = {
    onInboxMessage() {},
    onInboxChange: () => void changes.push([inbox.listens, inbox.isMute]),
  };
  const inbox = new Inbox(client, clock, () => {}, listener);
  inbox.open();
  return { clock, inbox, changes };
}

Deno.test("Inbox tries again when a server takes 10 s to answer", async () => {
  const { client, attempts } = silentPort();
  const { clock, inbox } = open(client);
  await clock.pass(9_999);
  assertEquals(attempts.length, 1);
  await clock.pass(200);
  assertEquals(attempts.map(({ aborted }) => aborted), [true, false]);
  await inbox.close();
  assertEquals(attempts.map(({ aborted }) => aborted), [true, true]);
});

Deno.test("Inbox keeps a subscription for as long as its connection lasts", async () => {
  const { client, attempts } = silentPort();
  const subscribe = client.subscribe!;
  client.subscribe = (channel, onMessage, onSubscribed, signal) => {
    onSubscribed();
    return subscribe(channel, onMessage, onSubscribed, signal);
  };
  const { clock, inbox } = open(client);
  await clock.pass(60_000);
  assertEquals([attempts.length, inbox.listens], [1, true]);
  await inbox.close();
  assertEquals([attempts[0]!.aborted, inbox.listens], [true, false]);
});

Deno.test("Inbox that Redis refuses for good tries again later and later, a minute at most, and soon after a success", async () => {
  const { client } = silentPort();
  let attempts = 0;
  let isAllowed = false;
  client.subscribe = (_channel, _onMessage, onSubscribed) => {
    attempts++;
    if (isAllowed) onSubscribed();
    return Promise.reject(new Error("NOPERM no right to the channel"));
  };
  const { clock, inbox, changes } = open(client);
  /** Opens it every 10 ms until there is another attempt. Returns when that was. */
  const next = async () => {
    const before = attempts;
    const startMs = clock.now();
    while (attempts === before && clock.now() < startMs + 100_000) {
      await clock.pass(10);
      inbox.open();
    }
    return clock.now() - startMs;
  };
  await clock.pass(0);
  const pausesMs: number[] = [];
  for (let i = 0; i < 9; i++) pausesMs.push(await next());
  assertEquals(pausesMs, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
  isAllowed = true;
  await next();
  await clock.pass(0);
  assertEquals(changes.slice(-2), [[true, false], [false, true]]);
  isAllowed = false;
  assertEquals([await next(), await next()], [500, 1_000]);
  await inbox.close();
  assertEquals(clock.timers, 0);
});

Deno.test("Inbox subscribes again 100 ms after its connection has ended, and close() waits for the end of the last one", async () => {
  const { client } = silentPort();
  const ends: (() => void)[] = [];
  client.subscribe = (_channel, _onMessage, onSubscribed) => {
    onSubscribed();
    return new Promise<void>((resolve) => ends.push(resolve));
  };
  const { clock, inbox } = open(client);
  await clock.pass(0);
  for (let count = 1; count < 4; count++) {
    ends.at(-1)!();
    await clock.pass(99);
    assertEquals(ends.length, count);
    await clock.pass(1);
    assertEquals(ends.length, count + 1);
  }
  let isClosed = false;
  const closed = inbox.close().then(() => isClosed = true);
  await settle();
  assertEquals(isClosed, false);
  ends.at(-1)!();
  await closed;
  assertEquals([ends.length, inbox.listens, clock.timers], [4, false, 0]);
});

Deno.test("Inbox that cannot subscribe does not listen, and tries less and less often until it has subscribed", async () => {
  const { client } = silentPort();
  let attempts = 0;
  let end: (() => void) | null = null;
  let isUp = true;
  client.subscribe = (_channel, _onMessage, onSubscribed) => {
    attempts++;
    if (!isUp) return Promise.reject(new Error("ERR max number of clients reached"));
    onSubscribed();
    return new Promise<void>((resolve) => end = resolve);
  };
  const { clock, inbox, changes } = open(client);
  await clock.pass(0);
  assertEquals([attempts, inbox.listens, inbox.isCountable], [1, true, true]);
  isUp = false;
  end!();
  await clock.pass(100);
  assertEquals([attempts, inbox.listens, inbox.isCountable], [2, false, false]);
  assertEquals(changes, [[true, false]], "no waiter asks for that alone");
  await clock.pass(60_000);
  assert(attempts > 55 && attempts < 200, `${attempts} attempts in a minute`);
  isUp = true;
  await clock.pass(1_000);
  assertEquals(inbox.listens, true);
  const before = attempts;
  end!();
  await clock.pass(100);
  assertEquals(attempts, before + 1, "soon after a success");
  end!();
  await inbox.close();
  assertEquals([inbox.listens, clock.timers], [false, 0]);
});
