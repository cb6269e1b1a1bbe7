import { assert, assertEquals } from "@std/assert";
import { type RedisClient, RedisLock } from "../../../redis/mod.ts";
import { slotOf } from "../../../redis/protocol/keys.ts";
import { type AskSent, ServerClocks } from "../../../redis/protocol/server_clocks.ts";
import { waitUntil } from "../../../testing/servers/wait.ts";

/** Index of the first script argument: after the hash, the number of keys and four keys. */
const FIRST = 6;
const ASK_ARGS = 5;
const QUEUED = [2, 0, 1_000, 1, 1, 1, 1, 1];
const RELEASED = [1, 1];

/** A fake server that queues every call, and the arguments of the asks that it got. */
function fakeServer(cluster: boolean) {
  const asks: string[][] = [];
  const client: RedisClient = {
    send(command, args) {
      if (command !== "EVALSHA") return Promise.resolve("");
      const scriptArgs = args.slice(FIRST);
      if (scriptArgs.length < ASK_ARGS) return Promise.resolve(RELEASED);
      asks.push(scriptArgs);
      return Promise.resolve(QUEUED.with(1, Date.now()));
    },
    subscribe(_channel, _onMessage, onSubscribed, signal) {
      onSubscribed();
      return new Promise((resolve) => signal.addEventListener("abort", () => resolve()));
    },
    epoch: 0,
    cluster,
  };
  return { asks, client };
}

/** An answer that took 10 ms. The offset is between `offsetMs` and 10 ms more. */
function answer(offsetMs: number, epoch = 1, receivedMs = 1_000): [number, AskSent, number] {
  return [receivedMs + offsetMs, { nowMs: receivedMs - 10, wallMs: 0, epoch }, receivedMs];
}

Deno.test("ServerClocks has one offset for all keys of one server", () => {
  const clocks = new ServerClocks(false);
  assertEquals(clocks.offsetMs("a"), null);
  clocks.learn("a", ...answer(7));
  assertEquals(clocks.offsetMs("b"), 7);
});

Deno.test("ServerClocks has an offset per slot in a cluster", () => {
  const clocks = new ServerClocks(true);
  assert(slotOf("a") !== slotOf("b"));
  clocks.learn("a", ...answer(7));
  assertEquals(clocks.offsetMs("b"), null);
  assertEquals(clocks.offsetMs("{a}b"), 7);
});

Deno.test("ServerClocks keeps the largest lower bound of a connection when an answer is read late", () => {
  const clocks = new ServerClocks(false);
  clocks.learn("a", ...answer(7));
  const [serverMs, sent] = answer(7);
  clocks.learn("a", serverMs, sent, 1_990);
  assertEquals(clocks.offsetMs("a"), 7);
  clocks.learn("a", ...answer(9));
  assertEquals(clocks.offsetMs("a"), 9);
});

Deno.test("ServerClocks drops its offset when a later answer proves it too large", () => {
  const clocks = new ServerClocks(false);
  clocks.learn("a", ...answer(30));
  clocks.learn("a", ...answer(20)); // up to 30
  assertEquals(clocks.offsetMs("a"), 30);
  clocks.learn("a", ...answer(19.5));
  assertEquals(clocks.offsetMs("a"), 19.5);
});

Deno.test("ServerClocks starts again with the first answer on another connection", () => {
  const clocks = new ServerClocks(false);
  clocks.learn("a", ...answer(30));
  clocks.learn("a", ...answer(25, 2));
  assertEquals(clocks.offsetMs("a"), 25);
});

for (const cluster of [false, true]) {
  const where = cluster ? "in a cluster" : "on one server";
  Deno.test(`RedisLock ${cluster ? "never " : ""}lets the server count its subscriber ${where}`, async () => {
    const { asks, client } = fakeServer(cluster);
    await using lock = new RedisLock(client);
    const abort = new AbortController();
    const wait = lock.acquire("n", { signal: abort.signal });
    wait.catch(() => {});
    // The second ask is sent when the inbox has opened.
    await waitUntil("two asks are sent", () => asks.length >= 2);
    assertEquals(asks.slice(0, 2).map((args) => args[4]!.split(" ")[1]), [
      "0",
      cluster ? "0" : "1",
    ]);
    abort.abort();
  });

  Deno.test(`RedisLock sends a time limit with each ask once it knows the server's clock ${where}`, async () => {
    const { asks, client } = fakeServer(cluster);
    await using lock = new RedisLock(client);
    const isDated = async (name: string) => {
      const abort = new AbortController();
      const count = asks.length;
      const wait = lock.acquire(name, { signal: abort.signal });
      wait.catch(() => {});
      await waitUntil("an ask is sent", () => asks.length > count);
      abort.abort();
      await wait.catch(() => {});
      return asks[count]![2] !== "0";
    };
    assertEquals([await isDated("a"), await isDated("b")], [false, !cluster]);
  });
}
