/** What the adapter of ioredis makes of its clients' events, and which node of a cluster it uses. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { EventEmitter } from "node:events";
import {
  ioredis,
  type IoredisClient,
  type IoredisCluster,
} from "../../../redis/clients/ioredis.ts";

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
