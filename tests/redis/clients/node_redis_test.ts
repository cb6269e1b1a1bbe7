/** What the adapter of a node-redis cluster makes of its client's events, and which node it uses. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { EventEmitter } from "node:events";
import { nodeRedis, type NodeRedisCluster } from "../../../redis/clients/node_redis.ts";

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
  const { cluster, client, events } = fakeCluster();
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
  cluster.isOpen = false;
  assert(client.unusable !== undefined);
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
