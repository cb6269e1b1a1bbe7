/** What the adapter of node-redis makes of its clients' events, which node it uses, and how it subscribes. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { EventEmitter } from "node:events";
import {
  nodeRedis,
  type NodeRedisClient,
  type NodeRedisCluster,
} from "../../../redis/clients/node_redis.ts";
import { within } from "../../../testing/conformance/bounds.ts";
import { settle } from "../../../testing/core/fake_clock.ts";

function fakeCluster() {
  const events = new EventEmitter().on("error", () => {});
  const sent: unknown[][] = [];
  const node = (name: string, isReady: boolean) => ({
    sendCommand(args: string[]) {
      sent.push([name, ...args]);
      return Promise.resolve(name);
    },
    on: () => {},
    duplicate(): never {
      throw new Error("unused");
    },
    isReady,
  });
  const masters: { client?: ReturnType<typeof node> }[] = [];
  const cluster = {
    sendCommand(...args: unknown[]) {
      sent.push(args);
      return Promise.resolve("OK");
    },
    on: (event: string | symbol, listener: (...args: unknown[]) => void) =>
      events.on(event, listener),
    masters,
    nodeClient: () => Promise.reject(new Error("unused")),
    slots: [undefined, { master: { address: "a:1" } }],
    isOpen: true,
  };
  return { cluster, client: nodeRedis(cluster as NodeRedisCluster), events, masters, node, sent };
}

Deno.test("nodeRedis() of a cluster client counts the changes of its nodes, and names the last error of those that are down", () => {
  const { cluster, client, events, masters, node } = fakeCluster();
  const [a, b] = [{}, {}];
  const told = () => (client.connectionError as Error | undefined)?.message;
  for (const event of ["node-ready", "node-reconnecting", "node-disconnect"]) {
    const { epoch } = client;
    events.emit(event, a);
    assert(client.epoch !== epoch, event);
  }
  assertEquals([told(), client.unusable], [undefined, undefined]);
  const { epoch } = client;
  events.emit("node-error", new Error("1"), a);
  assert(client.epoch !== epoch);
  assertEquals(told(), "1");
  events.emit("node-error", new Error("2"), b);
  assertEquals(told(), "2");
  events.emit("node-error", new Error("3"), a);
  assertEquals(told(), "3");
  events.emit("node-disconnect", a);
  assertEquals(told(), "2");
  events.emit("node-ready", b);
  assertEquals(told(), undefined);
  events.emit("error", new Error("4"));
  assertEquals(told(), "4");
  events.emit("node-ready", a);
  assertEquals(told(), undefined);
  masters.push({}, { client: node("ready", true) });
  events.emit("error", new Error("of a search for nodes"));
  assertEquals(told(), undefined, "a master is connected");
  cluster.isOpen = false;
  assert(client.unusable !== undefined);
  masters.length = 0;
  events.emit("error", new Error("5"));
  assertEquals(client.unusable, undefined, "it could not connect: that is an outage");
});

Deno.test("nodeRedis() of a cluster client sends commands without a key to any connected master, and others as writes", async () => {
  const { client, masters, node, sent } = fakeCluster();
  const info = async (times: number) => {
    for (let i = 0; i < times; i++) await client.send("INFO", [], "");
    return new Set(sent.splice(0).map(([name]) => name));
  };
  await client.send("GET", ["k"], "k");
  assertEquals(sent.splice(0), [["k", false, ["GET", "k"]]]);
  await assertRejects(() => info(1), Error, "No master of the cluster is connected");
  masters.push({}, { client: node("down", false) });
  assertEquals(await info(1), new Set(["down"]));
  masters.push({ client: node("a", true) });
  assertEquals(await info(20), new Set(["a"]));
  masters.push({ client: node("b", true) });
  assertEquals(await info(100), new Set(["a", "b"]));
  assertEquals([0, 1, 2].map((slot) => client.nodeOf!(slot)), [undefined, "a:1", undefined]);
});

/** A client that notes its commands, and a subscriber that connects and subscribes when the test says so. */
function fakeClient(name = "a") {
  const events = new EventEmitter().on("error", () => {});
  const subscriberEvents = new EventEmitter();
  const log: string[] = [];
  const sent: unknown[][] = [];
  const given: object[] = [];
  const [connected, subscribed] = [1, 2].map(() => Promise.withResolvers<void>());
  let tell = (_message: string) => {};
  const subscriber = {
    isOpen: true,
    connect: () => connected!.promise,
    subscribe(channel: string, listener: (message: string) => void) {
      log.push(`subscribe ${channel}`);
      tell = listener;
      return subscribed!.promise;
    },
    on: (event: string, listener: () => void) => subscriberEvents.on(event, listener),
    destroy(): void {
      log.push("destroy");
      this.isOpen = false;
    },
  };
  const raw = {
    reply: () => Promise.resolve<unknown>(name),
    sendCommand(...args: unknown[]): Promise<unknown> {
      sent.push(args);
      return this.reply();
    },
    on: (event: string | symbol, listener: (error?: unknown) => void) => events.on(event, listener),
    duplicate(options: { socket: object }) {
      given.push(options);
      return subscriber;
    },
    options: { socket: { port: 7 } },
    isReady: true,
    isOpen: true,
  };
  const subscribe = (client = nodeRedis(raw)) => {
    const abort = new AbortController();
    const ended = client.subscribe!(
      "c",
      (message) => void log.push(message),
      () => void log.push("subscribed"),
      abort.signal,
    );
    const outcome = { isOver: false };
    const over = () => void (outcome.isOver = true);
    ended.then(over, over);
    return { abort, ended, outcome };
  };
  const connect = async () => {
    connected!.resolve();
    subscriberEvents.emit("connect");
    await settle();
  };
  const succeed = async () => {
    await connect();
    subscribed!.resolve();
    await settle();
  };
  return {
    ...{ events, given, log, raw, sent, subscribe, subscribed: subscribed!, subscriber },
    ...{ connect, subscriberEvents, succeed, tell: (message: string) => tell(message) },
  };
}

Deno.test("nodeRedis() of a client counts its connections, names why it is down, and sends commands without a time-out", async () => {
  const { events, raw, sent } = fakeClient();
  const client = nodeRedis(raw);
  const told = () => (client.connectionError as Error | undefined)?.message;
  for (const event of ["ready", "reconnecting", "end"]) {
    const { epoch } = client;
    events.emit(event);
    assert(client.epoch !== epoch, event);
  }
  events.emit("error", new Error("of one command"));
  assertEquals(told(), undefined, "it is connected");
  raw.isReady = false;
  events.emit("error", new Error("refused"));
  assertEquals(told(), "refused");
  events.emit("ready");
  assertEquals([told(), client.unusable], [undefined, undefined]);
  raw.isOpen = false;
  assert(client.unusable !== undefined);
  assertEquals(await client.send("GET", ["k"], "k"), "a");
  assertEquals(sent, [[["GET", "k"], { timeout: undefined }]]);
});

Deno.test("nodeRedis() subscribes on a connection of its own that is not made again, until that ends", async () => {
  const { given, log, subscribe, subscriber, subscriberEvents, succeed, tell } = fakeClient();
  const { ended, outcome } = subscribe();
  assertEquals(given, [{ socket: { port: 7, reconnectStrategy: false } }]);
  assertEquals(log, []);
  await succeed();
  tell("hello");
  assertEquals(log.splice(0), ["subscribe c", "subscribed", "hello"]);
  subscriberEvents.emit("error", new Error("of one command"));
  await settle();
  assertEquals(outcome.isOver, false, "it is still connected");
  subscriber.isOpen = false;
  subscriberEvents.emit("end");
  await within("it ends", ended);
  assertEquals(log, [], "there is nothing to close");
});

Deno.test("nodeRedis() closes the connection of a subscription that is aborted or refused, as soon as there is one", async () => {
  const running = fakeClient();
  const { abort, ended } = running.subscribe();
  await running.succeed();
  abort.abort();
  await within("it ends without an event", ended);
  assertEquals(running.log, ["subscribe c", "subscribed", "destroy"]);

  const connecting = fakeClient();
  const early = connecting.subscribe();
  early.abort.abort(new Error("no longer wanted"));
  await assertRejects(() => within("it ends", early.ended), Error, "no longer wanted");
  assertEquals(connecting.log, [], "destroy() would end nothing");
  await connecting.connect();
  assertEquals(connecting.log, ["destroy"]);

  const refused = fakeClient();
  const late = refused.subscribe();
  await refused.connect();
  refused.subscribed.reject(new Error("NOPERM no right to the channel"));
  await assertRejects(() => within("it ends", late.ended), Error, "NOPERM");
  assertEquals(refused.log, ["subscribe c", "destroy"]);
});

/** A Sentinel client: when its primary refuses a use, it asks the sentinels, and the next one takes over. */
function fakeSentinel(...primaries: ReturnType<typeof fakeClient>[]) {
  const events = new EventEmitter().on("error", () => {});
  const finds: boolean[] = [];
  const sentinel = {
    sendCommand: () => Promise.reject(new Error("unused")),
    getMasterNode: () => undefined,
    async _execute<T>(
      isReadonly: boolean,
      use: (primary: NodeRedisClient) => Promise<T>,
    ): Promise<T> {
      finds.push(isReadonly);
      try {
        return await use(primaries[0]!.raw);
      } catch {
        primaries.shift();
        return await use(primaries[0]!.raw);
      }
    },
    on: (event: string | symbol, listener: (error?: unknown) => void) => events.on(event, listener),
    isOpen: true,
  };
  return { client: nodeRedis(sentinel), events, finds, sentinel };
}

Deno.test("nodeRedis() of a Sentinel client sends commands to its primary, and finds another one when that refuses writes", async () => {
  const [a, b] = [fakeClient("a"), fakeClient("b")];
  const { client, finds } = fakeSentinel(a, b);
  const send = () => client.send("SET", ["k", "v"], "k");
  const { epoch } = client;
  assertEquals(await Promise.all([send(), send()]), ["a", "a"]);
  assertEquals(await send(), "a");
  assertEquals([finds, client.epoch, a.sent.length], [[false], epoch, 3]);
  assertEquals(a.sent[0], [["SET", "k", "v"]]);
  a.raw.reply = () => Promise.reject(new Error("OOM command not allowed"));
  await assertRejects(send, Error, "OOM");
  await settle();
  assertEquals(finds.length, 1);
  const { ended } = a.subscribe(client);
  await a.succeed();
  a.raw.reply = () => Promise.reject(new Error("READONLY You can't write"));
  await assertRejects(send, Error, "READONLY");
  await within("its subscription ends, too", ended);
  assert(client.epoch !== epoch);
  assertEquals([await send(), finds.length], ["b", 2]);
  b.events.emit("reconnecting");
  assert(client.epoch !== epoch + 1);
});

Deno.test("nodeRedis() of a Sentinel client looks for a primary when none is connected, and names why until one is", async () => {
  const a = fakeClient();
  const { client, events, finds, sentinel } = fakeSentinel(a);
  const told = () => (client.connectionError as Error | undefined)?.message;
  await assertRejects(() => a.subscribe(client).ended, Error, "No primary is connected");
  await settle();
  assertEquals(finds.length, 1, "it has looked for one");
  events.emit("error", new Error("of one sentinel"));
  events.emit("topology-change");
  assertEquals([told(), finds.length], [undefined, 1]);
  a.raw.isReady = false;
  assertEquals(told(), undefined);
  events.emit("error", new Error("no sentinel answers"));
  assertEquals(told(), "no sentinel answers");
  a.events.emit("error", new Error("refused"));
  assertEquals(told(), "refused");
  a.events.emit("end"); // the client has dropped it
  assertEquals(told(), "no sentinel answers");
  events.emit("topology-change");
  await settle();
  assertEquals(finds.length, 2);
  sentinel.isOpen = false;
  await assertRejects(() => client.send("PING", [], ""), Error, "The client is closed");
  assertEquals([client.unusable, finds.length], [undefined, 2], "it has reported an error");
  sentinel.isOpen = true;
  a.raw.isReady = true;
  a.events.emit("ready");
  assertEquals([told(), await client.send("PING", [], "")], [undefined, "a"]);
  a.raw.isReady = false;
  assertEquals(told(), undefined, "the error is over");
  sentinel.isOpen = false;
  assert(client.unusable !== undefined);
});

Deno.test("nodeRedis() of a Sentinel client forgets the errors before its first primary", async () => {
  const { client, events, sentinel } = fakeSentinel(fakeClient());
  events.emit("error", new Error("of a sentinel that is down"));
  await client.send("PING", [], "");
  sentinel.isOpen = false;
  assert(client.unusable !== undefined);
});
