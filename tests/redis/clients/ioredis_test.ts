/**
 * What the adapter of ioredis makes of its clients' events, which node of a cluster it uses, how it
 * subscribes and how it writes.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { EventEmitter } from "node:events";
import process from "node:process";
import {
  ioredis,
  type IoredisClient,
  type IoredisCluster,
} from "../../../redis/clients/ioredis.ts";
import { within } from "../../../testing/conformance/bounds.ts";
import { settle } from "../../../testing/core/fake_clock.ts";

type Listener = (error?: unknown) => void;

function fake(status: string, more: object = {}) {
  const events = new EventEmitter().on("error", () => {});
  return {
    events,
    status,
    call: () => Promise.resolve(null),
    on: (event: string | symbol, listener: Listener) => events.on(event, listener),
    options: {},
    ...more,
  };
}

/** A node that notes when a subscriber is made of it, and makes none. */
function node(name: string, status: string, chosen: string[]) {
  return fake(status, {
    duplicate() {
      chosen.push(name);
      throw new Error("no subscriber");
    },
  });
}

Deno.test("ioredis() of a cluster watches all of its nodes, and subscribes at any connected master", async () => {
  const chosen: string[] = [];
  const nodes: ReturnType<typeof fake>[] = [];
  const cluster = fake("ready", {
    nodes: () => nodes,
    slots: [undefined, ["a:1", "b:1"]],
    isCluster: true,
  });
  const down = node("down", "connecting", chosen);
  nodes.push(down);
  const client = ioredis(cluster as unknown as IoredisCluster);
  const told = () => (client.connectionError as Error | undefined)?.message;
  const later = node("a", "connecting", chosen);
  cluster.events.emit("+node", later);
  for (const { events } of [down, later]) {
    for (const event of ["connect", "close", "end"]) {
      const { epoch } = client;
      events.emit(event);
      assert(client.epoch !== epoch, event);
    }
    events.emit("error", new Error("refused"));
    assertEquals(told(), "refused");
    events.emit("ready");
    assertEquals(told(), undefined);
  }
  later.status = "ready";
  later.events.emit("error", new Error("of one command"));
  assertEquals(told(), undefined);
  cluster.events.emit("error", new Error("no node"));
  assertEquals(told(), "no node");
  later.events.emit("ready");
  assertEquals([told(), client.unusable], [undefined, undefined]);

  const { signal } = new AbortController();
  const subscribe = async (times: number) => {
    for (let i = 0; i < times; i++) {
      const subscribed = client.subscribe!("channel", () => {}, () => {}, signal);
      await assertRejects(() => subscribed, Error, "no subscriber");
    }
    return new Set(chosen.splice(0));
  };
  assertEquals(await subscribe(1), new Set(["down"]), "none is connected");
  nodes.push(later);
  assertEquals(await subscribe(20), new Set(["a"]));
  nodes.push(node("b", "ready", chosen));
  assertEquals(await subscribe(100), new Set(["a", "b"]));
  nodes.length = 0;
  await assertRejects(
    () => client.subscribe!("channel", () => {}, () => {}, signal),
    Error,
    "No master of the cluster is known",
  );
  assertEquals([0, 1, 2].map((slot) => client.nodeOf!(slot)), [undefined, "a:1", undefined]);
  cluster.status = "end";
  assert(client.unusable !== undefined);
});

Deno.test("ioredis() connects a client again only if a failover has ended it, and warns if it is not told of one", () => {
  let connects = 0;
  const client = fake("connecting", {
    options: { sentinels: [{}], failoverDetector: true },
    manuallyClosing: false,
    connect() {
      connects++;
      return Promise.reject(new Error("no server"));
    },
  });
  const adapt = (fake: object) => ioredis(fake as unknown as IoredisClient);
  assertEquals(adapt(client).warning, undefined);
  const end = (message: string) => {
    client.events.emit("error", new Error(message));
    client.events.emit("end");
    return connects;
  };
  assertEquals(end("Connection is closed."), 1);
  assertEquals(end("another error"), 1);
  Object.assign(client, { manuallyClosing: true });
  assertEquals(end("Connection is closed."), 1, "its user closes it");
  const told = [{ sentinels: [] }, { sentinels: null }, {}, { sentinels: [{}] }].map((options) =>
    adapt(fake("ready", { options })).warning !== undefined
  );
  assertEquals(told, [false, false, false, true]);
});

type Settings = Parameters<IoredisClient["duplicate"]>[0];

/** A client, and a subscriber of it that connects and subscribes when the test says so. */
function subscribing(options: object = {}) {
  const events = new EventEmitter();
  const log: string[] = [];
  const given: Settings[] = [];
  const [connected, subscribed] = [1, 2].map(() => Promise.withResolvers<void>());
  const subscriber = {
    status: "wait",
    connect: () => connected!.promise,
    subscribe(channel: string) {
      log.push(`subscribe ${channel}`);
      return subscribed!.promise;
    },
    on: (event: string, listener: (...args: string[]) => void) => events.on(event, listener),
    disconnect: () => void log.push("disconnect"),
  };
  const client = fake("ready", {
    options,
    duplicate(settings: Settings) {
      given.push(settings);
      return subscriber;
    },
  });
  const abort = new AbortController();
  const ended = ioredis(client as unknown as IoredisClient).subscribe!(
    "c",
    (message) => void log.push(message),
    () => void log.push("subscribed"),
    abort.signal,
  );
  ended.catch(() => {}); // it is awaited later
  const succeed = async () => {
    connected!.resolve();
    await settle();
    subscriber.status = "ready";
    subscribed!.resolve();
    await settle();
  };
  const end = () => {
    subscriber.status = "end";
    events.emit("end");
  };
  return { abort, connected: connected!, end, ended, events, given, log, succeed };
}

Deno.test("ioredis() subscribes on a connection of its own that is not made again, and closes it when it is aborted or fails", async () => {
  for (const failoverDetector of [false, true]) {
    const { end, ended, events, given, log, succeed } = subscribing({ failoverDetector });
    const { retryStrategy, sentinelRetryStrategy, ...settings } = given[0]!;
    assertEquals(settings, { lazyConnect: true, keepAlive: 30_000 });
    assertEquals([retryStrategy(), sentinelRetryStrategy()], [null, null]);
    assertEquals(log, []);
    await succeed();
    events.emit("error", new Error("of the connection"));
    events.emit("message", "c", "hello");
    assertEquals(log.splice(0), ["subscribe c", "subscribed", "hello"]);
    end();
    await within("it ends", ended);
    assertEquals(log, failoverDetector ? ["disconnect"] : [], "the detector's own connections");
  }
  const { abort, end, ended, log, succeed } = subscribing();
  await succeed();
  log.length = 0;
  abort.abort();
  assertEquals(log, ["disconnect"]);
  end();
  await within("it ends", ended);
  assertEquals(log, ["disconnect"]);
  const failing = subscribing();
  failing.connected.reject(new Error("refused"));
  await assertRejects(() => failing.ended, Error, "refused");
  assertEquals(failing.log, ["disconnect"]);
});

Deno.test("ioredis() tells why the connection of a subscription failed, which the client reports as an event only", async () => {
  const { connected, ended, events } = subscribing();
  events.emit("error", new Error("WRONGPASS invalid username-password pair"));
  connected.reject(new Error("Connection is closed."));
  await assertRejects(() => ended, Error, "WRONGPASS");
  const later = subscribing();
  await later.succeed();
  later.events.emit("error", new Error("of the connection"));
  later.end();
  await within("it had subscribed", later.ended);
});

Deno.test("ioredis() writes the first command of a turn at once, and those behind it in batches of 2, 4, 8 and 16", async () => {
  const log: string[] = [];
  const client = fake("ready", {
    call() {
      log.push("command");
      return Promise.resolve("OK");
    },
    stream: { cork: () => void log.push("cork"), uncork: () => void log.push("uncork") },
  });
  const { send } = ioredis(client as unknown as IoredisClient);
  const turn = async (commands: number) => {
    for (let i = 0; i < commands; i++) send("PING", [], "");
    await new Promise<void>((resolve) => process.nextTick(resolve));
    return log.splice(0);
  };
  const batch = (size: number) => {
    return ["cork", ...Array.from({ length: size }, () => "command"), "uncork"];
  };
  assertEquals(await turn(1), ["command"]);
  assertEquals(await turn(2), ["command", ...batch(1)]);
  assertEquals(await turn(48), ["command", ...[2, 4, 8, 16, 16, 1].flatMap(batch)]);
  assertEquals(await turn(3), ["command", ...batch(2)]);
});
