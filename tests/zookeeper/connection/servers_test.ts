import { assert, assertEquals, assertLess } from "@std/assert";
import { block } from "../../../testing/conformance/bounds.ts";
import { freePort, listenOnFreePort } from "../../../testing/servers/ports.ts";
import { waitUntil } from "../../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS, LONG_BOUND_MS, scaled } from "../../../testing/time.ts";
import { openTransport } from "../../../testing/zookeeper/open_transport.ts";
import { reply, startScriptedServer } from "../../../testing/zookeeper/scripted_server.ts";
import { ZooKeeperLock } from "../../../zookeeper/mod.ts";
import { readServers, ServerRotation, type Target } from "../../../zookeeper/connection/servers.ts";
import type { ServerAddress } from "../../../zookeeper/connection/transport.ts";

const SERVERS = ["a", "b", "c"].map((host) => ({ host, port: 2181 }));

/** The addresses of the hosts; a host without any is unknown. */
type Hosts = Readonly<Record<string, readonly string[]>>;

function newRotation(hosts: Hosts, servers: () => readonly ServerAddress[] = () => SERVERS) {
  return new ServerRotation({
    listServers: async () => await Promise.try(servers),
    lookUp: (host) => {
      const found = hosts[host];
      return found === undefined ? Promise.reject(new Error("unknown")) : Promise.resolve(found);
    },
  }, 50);
}

/** The targets of a round, or the first ones of them: `host/address`, or the host alone. */
async function names(rotation: ServerRotation, count = Infinity): Promise<string[]> {
  const found: string[] = [];
  for await (const target of rotation.round()) {
    const name = target.server?.host ?? "none";
    if ("error" in target) found.push(`${name}: ${(target.error as Error).message}`);
    else found.push(target.address === undefined ? name : `${name}/${target.address}`);
    if (found.length === count) break;
  }
  return found;
}

const SINGLE: Hosts = { a: ["1"], b: ["2"], c: ["3"] };

Deno.test("ServerRotation begins each round behind the last server", async () => {
  const rotation = newRotation(SINGLE);
  assertEquals(await names(rotation), ["a", "b", "c"]);
  assertEquals(await names(rotation), ["a", "b", "c"]);
  assertEquals(await names(rotation, 1), ["a"]);
  assertEquals(await names(rotation, 2), ["b", "c"]);
  assertEquals(await names(rotation), ["a", "b", "c"]);
});

Deno.test("readServers() begins each list with the next server, and keeps their order", async () => {
  const { listServers } = readServers("a,b,c");
  const lists: string[] = [];
  for (let i = 0; i < 4; i++) lists.push((await listServers()).map(({ host }) => host).join(""));
  const [first = ""] = lists;
  const later = (count: number) => first.slice(count) + first.slice(0, count);
  assertEquals(lists, [first, later(1), later(2), first]);
});

Deno.test("readServers() begins with any of the servers, so that clients spread over them", async () => {
  const firsts = new Set<string | undefined>();
  for (let i = 0; i < 200; i++) firsts.add((await readServers("a,b,c").listServers())[0]?.host);
  assertEquals(firsts, new Set(["a", "b", "c"]));
});

Deno.test("ServerRotation does not look up what is an address", async () => {
  const rotation = newRotation({}, () => ["127.0.0.1", "::1"].map((host) => ({ host, port: 1 })));
  assertEquals(await names(rotation), ["127.0.0.1", "::1"]);
});

Deno.test("ServerRotation tries all addresses of a host, and looks them up again in each round", async () => {
  const hosts: Record<string, readonly string[]> = { a: ["1", "2"], b: ["3"] };
  const rotation = newRotation(hosts, () => SERVERS.slice(0, 2));
  assertEquals(await names(rotation), ["a/1", "a/2", "b"]);
  hosts.a = ["1", "9"];
  assertEquals(await names(rotation), ["a/1", "a/9", "b"]);
  const one = newRotation({ a: ["1", "2", "3"] }, () => SERVERS.slice(0, 1));
  assertEquals(await names(one, 1), ["a/1"]);
  assertEquals(await names(one), ["a/2", "a/3", "a/1"]);
});

Deno.test("ServerRotation tries at most 8 addresses of a host", async () => {
  const many = Array.from({ length: 100 }, (_, i) => String(i));
  const rotation = newRotation({ a: many }, () => SERVERS.slice(0, 1));
  assertEquals((await names(rotation)).length, 8);
});

Deno.test("ServerRotation goes on when a host is unknown, or its lookup has no end", async () => {
  const rotation = new ServerRotation({
    listServers: () => Promise.resolve(SERVERS),
    lookUp: (host) => {
      if (host === "a") return Promise.reject(new Error("unknown"));
      return host === "b" ? new Promise(() => {}) : Promise.resolve(["3"]);
    },
  }, 50);
  assertEquals(await names(rotation), ["a: unknown", "b: No answer in time", "c"]);
});

Deno.test("ServerRotation lists the servers again in each round, also after a failure", async () => {
  const lists = [["a"], ["b", "a"], null, ["c"]];
  const rotation = newRotation(SINGLE, () => {
    const hosts = lists.shift();
    if (hosts === null) throw new Error("no list");
    return hosts!.map((host) => ({ host, port: 1 }));
  });
  assertEquals(await names(rotation), ["a"]);
  assertEquals(await names(rotation), ["b", "a"]);
  assertEquals(await names(rotation), ["none: no list"]);
  assertEquals(await names(rotation), ["c"]);
});

Deno.test("ServerRotation leaves the choice of an address to the runtime when only names are permitted", async () => {
  const rotation = newRotation({ ...SINGLE, a: ["1", "2", "3"] });
  const found: string[] = [];
  for await (const { server, address } of rotation.round() as AsyncGenerator<Target>) {
    found.push(`${server.host}/${address}`);
    rotation.connectByName();
  }
  assertEquals(found, ["a/1", "a/undefined", "b/undefined", "c/undefined"]);
});

/** A server that closes each connection at once. */
function startRefusing() {
  const listener = listenOnFreePort();
  const attemptsMs: number[] = [];
  const accepting = (async () => {
    for await (const connection of listener) {
      attemptsMs.push(performance.now());
      connection.close();
    }
  })();
  return {
    port: listener.addr.port,
    attemptsMs,
    async [Symbol.asyncDispose]() {
      listener.close();
      await accepting;
    },
  };
}

Deno.test("ZooKeeperLock tries to connect more and more rarely, but at once for a new call", async () => {
  await using server = startRefusing();
  const { attemptsMs } = server;
  // The pauses may grow to a tenth of the session timeout.
  const sessionTimeoutMs = scaled(20_000);
  await using locks = new ZooKeeperLock(`127.0.0.1:${server.port}`, {
    sessionTimeoutMs,
    unavailableAfterMs: LONG_BOUND_MS,
  });
  const controller = new AbortController();
  const { signal } = controller;
  const calls = [locks.acquire("n", { signal }).catch(() => {})];
  const isPauseLong = () => attemptsMs.at(-1)! - attemptsMs.at(-2)! > sessionTimeoutMs / 20;
  await waitUntil("the pauses are long", isPauseLong, CONDITION_BOUND_MS);
  assert(attemptsMs.length <= 12, `${attemptsMs.length} attempts until the pauses are long`);
  // Each pause takes half to all of the longest one now, unless a call ends it.
  await waitUntil("a new call connects at once", async () => {
    const before = attemptsMs.length;
    const hasTried = (times: number) => () => attemptsMs.length >= before + times;
    await waitUntil("the next attempt is made", hasTried(1), CONDITION_BOUND_MS);
    calls.push(locks.acquire("n", { signal }).catch(() => {}));
    await waitUntil("the next attempt is made", hasTried(2), CONDITION_BOUND_MS);
    return attemptsMs.at(-1)! - attemptsMs.at(-2)! < sessionTimeoutMs / 25;
  }, CONDITION_BOUND_MS);
  controller.abort();
  await Promise.all(calls);
});

Deno.test("The transport starts no timer when a call comes after its end", async () => {
  await using server = startRefusing();
  const { attemptsMs } = server;
  const sessionTimeoutMs = scaled(20_000);
  using transport = await openTransport(server.port, { until: "connecting", sessionTimeoutMs });
  // The next pause is so long that a call would shorten it.
  const isPauseLong = () => attemptsMs.at(-1)! - attemptsMs.at(-2)! > 700;
  await waitUntil("the pauses are long", isPauseLong, CONDITION_BOUND_MS);
  transport.destroy();
  await Promise.resolve(); // The attempts end a microtask later.
  transport.connectNow(); // The test runner would report a timer.
});

Deno.test("The transport connects more and more rarely to a server that accepts the session and drops the connection", async () => {
  await using server = startScriptedServer(() => Promise.resolve());
  const startMs = performance.now();
  using transport = await openTransport(server.port, { until: "suspended" });
  await waitUntil("it has connected again and again", () => {
    transport.connectNow(); // as calls do
    return server.accepted >= 7;
  }, CONDITION_BOUND_MS);
  const tookMs = performance.now() - startMs;
  assert(tookMs > 2_000, `7 connections in ${tookMs} ms`);
  // While the latest connection lives, nothing is wrong.
  await waitUntil("it says why", () => {
    return String(transport.connectError).includes("accepted the session, but answered no");
  });
});

Deno.test("The transport does not count time in which its event loop was blocked while it connects", async () => {
  const sessionTimeoutMs = scaled(3_000); // an attempt has a third of it
  await using server = startScriptedServer(async ({ next }) => void await next());
  using transport = await openTransport(server.port, { until: "connecting", sessionTimeoutMs });
  block(sessionTimeoutMs);
  await waitUntil("it is connected", () => transport.state === "connected", CONDITION_BOUND_MS);
  assertEquals(server.accepted, 1);
});

Deno.test("The transport connects at once when a connection is dropped that was of use", async () => {
  await using server = startScriptedServer(async ({ next, send }) => {
    await send(reply((await next())!.xid));
  });
  using transport = await openTransport(server.port);
  const startMs = performance.now();
  for (let epoch = 1; epoch <= 20; epoch++) {
    await waitUntil("it is back", () => transport.epoch === epoch, CONDITION_BOUND_MS);
    await transport.delete("/a");
  }
  // With the pauses, which no machine changes, it takes 14 s.
  assertLess(performance.now() - startMs, 10_000);
});

Deno.test("The transport names the last failure of each server, also while it tries them again", async () => {
  const dead = freePort();
  const silent = listenOnFreePort();
  let attempts = 0;
  const accepting = (async () => {
    for await (const connection of silent) {
      attempts++;
      connection.readable.pipeTo(new WritableStream()).catch(() => {});
    }
  })();
  const servers = [dead, silent.addr.port].map((port) => ({ host: "127.0.0.1", port }));
  using transport = await openTransport(0, {
    until: "connecting",
    sessionTimeoutMs: 600,
    listServers: () => Promise.resolve(servers),
  });
  // In the first round, the silent server is also asked who it is.
  await waitUntil("the first round is over", () => attempts >= 3, CONDITION_BOUND_MS);
  await waitUntil("two more rounds are over", () => {
    const text = String(transport.connectError);
    for (const { port } of servers) assertEquals(text.split(`:${port}:`).length, 2, text);
    return attempts >= 5;
  }, CONDITION_BOUND_MS);
  transport.destroy();
  silent.close();
  await accepting;
});
