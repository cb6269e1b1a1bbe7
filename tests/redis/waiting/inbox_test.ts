/** How an inbox subscribes: the port is one whose server never answers, time is that of the test. */
import { assertEquals } from "@std/assert";
import { Warnings } from "../../../core/contract/warnings.ts";
import type { RedisClient } from "../../../redis/client.ts";
import { Inbox } from "../../../redis/waiting/inbox.ts";
import { FakeClock } from "../../../testing/core/fake_clock.ts";

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
  const listener = { onInboxMessage() {}, onInboxChange() {} };
  const inbox = new Inbox(client, clock, new Warnings(() => {}), listener);
  inbox.open();
  return { clock, inbox };
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
  const { clock, inbox } = open(client);
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
  isAllowed = false;
  assertEquals([await next(), await next()], [500, 1_000]);
  await inbox.close();
});
