/**
 * The transport against a server that answers as a script says, since no real server can be made to.
 *
 * @module
 */
import { assert, assertEquals, assertInstanceOf, assertRejects } from "@std/assert";
import type { Instant } from "../../../core/time/clock.ts";
import { startProxy } from "../../../testing/servers/proxy.ts";
import { waitUntil } from "../../../testing/servers/wait.ts";
import { scaled } from "../../../testing/time.ts";
import { settle } from "../../../testing/zookeeper/fake_zookeeper.ts";
import { openTransport } from "../../../testing/zookeeper/open_transport.ts";
import {
  childrenReply,
  frame,
  reply,
  type Script,
  type ScriptedRequest,
  startScriptedServer,
} from "../../../testing/zookeeper/scripted_server.ts";
import { operations } from "../../../testing/zookeeper/wire.ts";
import { ZooKeeperError } from "../../../zookeeper/connection/failures.ts";
import type { ServerAddress, ZooKeeperTransport } from "../../../zookeeper/connection/transport.ts";
import { ProtocolError } from "../../../zookeeper/connection/wire.ts";

/** So many requests are sent without waiting for an answer. */
const REQUESTS = 250;
/** With so many more frames for each, a chunk holds more than a stack has room for. */
const PINGS = 20;

/** Takes `count` requests, and sends what `answer` makes of them in one chunk. */
function inOneChunk(
  count: number,
  answer: (requests: readonly ScriptedRequest[]) => Uint8Array[],
): Script {
  return async ({ next, send }) => {
    for (;;) {
      const requests: ScriptedRequest[] = [];
      while (requests.length < count) {
        const request = await next();
        if (request === null) return;
        requests.push(request);
      }
      await send(...answer(requests));
    }
  };
}

/** Answers the only request on the first connection with the given bytes, and all others properly. */
function brokenOnce(bytes: (request: ScriptedRequest) => Uint8Array): Script {
  return async ({ id, next, send }) => {
    for (let request; (request = await next()) !== null;) {
      await send(id === 1 ? bytes(request) : reply(request.xid));
    }
  };
}

/** Checks that a request fails, with a cause that says why, and that the next one succeeds. */
async function dropsTheConnection(script: Script, reason: RegExp): Promise<void> {
  await using server = startScriptedServer(script);
  using transport = await openTransport(server.port);
  const error = await assertRejects(() => transport.delete("/a"), ZooKeeperError);
  assertEquals(error.code, "CONNECTION_LOSS");
  assertInstanceOf(error.cause, Error);
  assert(reason.test(error.cause.message), error.cause.message);
  await waitUntil("the client is back", () => transport.epoch === 2);
  await transport.delete("/a");
}

Deno.test("The transport handles thousands of frames that arrive in one chunk", async () => {
  await using server = startScriptedServer(inOneChunk(REQUESTS, withPings));
  using transport = await openTransport(server.port);
  for (let i = 0; i < 2; i++) {
    await Promise.all(Array.from({ length: REQUESTS }, () => transport.delete("/a")));
  }
  assertEquals(transport.epoch, 1);
});

Deno.test("The transport handles refusals that arrive in one chunk, known and unknown ones", async () => {
  const codes = [-101, -199, 0] as const;
  await using server = startScriptedServer(
    inOneChunk(REQUESTS, (requests) => withPings(requests, (xid) => codes[xid % 3]!)),
  );
  using transport = await openTransport(server.port);
  const calls = Array.from({ length: REQUESTS }, () => transport.delete("/a"));
  const seen = (await Promise.allSettled(calls)).map((call) =>
    call.status === "fulfilled" ? "done" : call.reason.code
  );
  // The first request has the number 1.
  assertEquals(seen.slice(0, 3), ["REFUSED", "done", "NO_NODE"]);
  assertEquals(seen.filter((code) => code === "REFUSED").length, Math.ceil(REQUESTS / 3));
  assertEquals(transport.epoch, 1);
});

/** Makes a reply to each request, and before it the replies to many pings. */
function withPings(
  requests: readonly ScriptedRequest[],
  codeOf: (xid: number) => number = () => 0,
): Uint8Array[] {
  const pings = Array.from({ length: PINGS }, () => reply(-2));
  return requests.flatMap(({ xid }) => [...pings, reply(xid, codeOf(xid))]);
}

Deno.test("The transport handles replies that arrive byte by byte", async () => {
  const names = Array.from({ length: 20 }, (_, i) => `child-${i}`);
  await using server = startScriptedServer(async ({ next, send }) => {
    for (let request; (request = await next()) !== null;) {
      const { xid, operation } = request;
      const bytes = operation === "getChildren" ? childrenReply(xid, names) : reply(xid);
      for (const byte of bytes) await send(Uint8Array.of(byte));
    }
  });
  using transport = await openTransport(server.port);
  const [listed] = await Promise.all([transport.children("/a"), transport.delete("/a")]);
  assertEquals(listed.names, names);
  assertEquals(transport.epoch, 1);
});

Deno.test("The transport handles a reply that arrives in many chunks", async () => {
  const names = Array.from({ length: 100_000 }, (_, i) => `_c_${i}-${"x".repeat(40)}`);
  await using server = startScriptedServer(
    inOneChunk(1, ([request]) => [childrenReply(request!.xid, names), reply(request!.xid + 1)]),
  );
  using transport = await openTransport(server.port);
  const [listed] = await Promise.all([transport.children("/a"), transport.delete("/a")]);
  assertEquals(listed.names, names);
});

for (const length of [-(2 ** 31), -1, 16 * 2 ** 20 + 1, 2 ** 31 - 1]) {
  Deno.test(`The transport drops a connection on which a reply says that it has ${length} bytes`, async () => {
    const broken = brokenOnce(({ xid }) => frame(reply(xid).slice(4), length));
    await dropsTheConnection(broken, new RegExp(`${length} bytes`));
  });
}

for (const length of [0, 3, 15]) {
  Deno.test(`The transport drops a connection on which a reply has only ${length} bytes`, async () => {
    const broken = brokenOnce(({ xid }) => frame(reply(xid).slice(4, 4 + length)));
    await dropsTheConnection(broken, new RegExp(`only ${length} bytes`));
  });
}

Deno.test("The transport drops a connection on which a reply ends too early", async () => {
  await using server = startScriptedServer(async ({ id, next, send }) => {
    for (let request; (request = await next()) !== null;) {
      const whole = childrenReply(request.xid, ["a", "b"]);
      await send(id === 1 ? frame(whole.slice(4, 30)) : whole);
    }
  });
  using transport = await openTransport(server.port);
  const error = await assertRejects(() => transport.children("/a"), ZooKeeperError);
  assertEquals(error.code, "CONNECTION_LOSS");
  assertInstanceOf(error.cause, Error);
  await waitUntil("the client is back", () => transport.epoch === 2);
  assertEquals((await transport.children("/a")).names, ["a", "b"]);
});

Deno.test("The transport drops a connection on which replies are out of order, and fails all requests", async () => {
  await using server = startScriptedServer(async (connection) => {
    const isFirst = connection.id === 1;
    await inOneChunk(isFirst ? 3 : 1, (requests) => {
      const replies = requests.map(({ xid }) => reply(xid));
      return isFirst ? [replies[1]!, replies[0]!, replies[2]!] : replies;
    })(connection);
  });
  using transport = await openTransport(server.port);
  const calls = await Promise.allSettled([1, 2, 3].map(() => transport.delete("/a")));
  for (const call of calls) {
    assert(call.status === "rejected");
    assertEquals(call.reason.code, "CONNECTION_LOSS");
    assert(/request/.test(call.reason.cause.message), call.reason.cause.message);
  }
  await waitUntil("the client is back", () => transport.epoch === 2);
  await transport.delete("/a");
});

Deno.test("The transport drops a connection on which a reply answers no request", async () => {
  const twice: Script = async ({ id, next, send }) => {
    for (let request; (request = await next()) !== null;) {
      const one = reply(request.xid);
      await (id === 1 ? send(one, one) : send(one));
    }
  };
  await using server = startScriptedServer(twice);
  using transport = await openTransport(server.port);
  await transport.delete("/a");
  await waitUntil("the client is back", () => transport.epoch === 2);
  await transport.delete("/a");
});

Deno.test("The transport closes its connection when it is destroyed on a stack that is used up", async () => {
  await using server = startScriptedServer(async ({ next }) => {
    while (await next() !== null);
  });
  for (let left = 0; left < 60; left++) {
    const transport = await openTransport(server.port);
    destroyOnUsedUpStack(transport, left);
    await waitUntil("the connection is closed", () => server.open === 0);
    assertEquals(transport.state, "closed");
  }
});

/** Calls `destroy()` as deep in a recursion as possible, and again further up until it does not throw. */
function destroyOnUsedUpStack(transport: ZooKeeperTransport, framesLeft: number): void {
  let frames = framesLeft;
  const descend = (): void => {
    try {
      descend();
    } catch {
      if (frames-- > 0) throw new RangeError("Maximum call stack size exceeded");
      transport.destroy();
    }
  };
  descend();
}

Deno.test("The transport tells the next server the last transaction that it knows, its watchers that their watches are lost, and its callers that it ends", async () => {
  let sessions = 0;
  await using server = startScriptedServer(async ({ next, send }) => {
    if (++sessions > 1) {
      while (await next() !== null);
      return;
    }
    const bytes = reply((await next())!.xid);
    new DataView(bytes.buffer, bytes.byteOffset).setBigInt64(8, 77n);
    await send(bytes);
  });
  await using proxy = startProxy({ hostname: "127.0.0.1", port: server.port });
  const zxids: bigint[] = [];
  const seen = new Set<number>();
  proxy.onRequest = (chunk, { id }) => {
    if (seen.has(id)) return "pass";
    seen.add(id);
    // The request for a session: its length, a version, and the last zxid that was seen. A stalled client also asks
    // who the server is, which is shorter.
    if (chunk.length > 16) zxids.push(new DataView(chunk.buffer, chunk.byteOffset).getBigInt64(8));
    return "pass";
  };
  using transport = await openTransport(proxy.port);
  const events: string[] = [];
  transport.watches.add("/a", { onWatchEvent: (event) => void events.push(event) });
  await transport.delete("/a");
  await waitUntil("the client is back", () => transport.epoch === 2);
  assertEquals(zxids, [0n, 77n]);
  assertEquals(events, ["changed"]);
  const call = transport.delete("/b");
  transport.destroy();
  assertEquals((await assertRejects(() => call, ZooKeeperError)).code, "SESSION_OVER");
  const late = await assertRejects(() => transport.delete("/b"), ZooKeeperError);
  assertEquals(late.code, "SESSION_OVER");
});

Deno.test("The transport tells when a ping was sent that is answered, and when its connection began", async () => {
  const pings = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let sessions = 0;
  let lostMs = Infinity;
  await using server = startScriptedServer(async ({ next, send }) => {
    const session = sessions++;
    await pings[session]?.promise;
    if (session === 0) {
      lostMs = performance.now();
      return; // This ping is not answered.
    }
    await send(reply(-2));
    while (await next() !== null);
  }, scaled(900)); // The client sends a ping after a third of it.
  await using proxy = startProxy({ hostname: "127.0.0.1", port: server.port });
  proxy.onRequest = operations((operation) => {
    if (operation === "ping") pings[sessions - 1]?.resolve();
  });
  using transport = await openTransport(proxy.port);
  const { promise: answered, resolve } = Promise.withResolvers<Instant>();
  transport.setListener({ onStateChange: () => {}, onPing: resolve });
  const sent = await answered;
  const { requestedAt } = transport;
  assert(lostMs < requestedAt.nowMs, "it is on the second connection");
  assert(requestedAt.nowMs < sent.nowMs, "the ping of the first connection was not answered");
});

Deno.test("The transport says why it has dropped a connection that was of use, until it is back", async () => {
  await using server = startScriptedServer(async ({ id, next, send }) => {
    for (let request; (request = await next()) !== null;) {
      const { xid } = request;
      await send(id === 1 && xid > 1 ? frame(reply(xid).slice(4), -1) : reply(xid));
    }
  });
  using transport = await openTransport(server.port);
  await transport.delete("/a");
  const error = await assertRejects(() => transport.delete("/a"), ZooKeeperError);
  assertEquals(error.code, "CONNECTION_LOSS");
  assertInstanceOf(error.cause, ProtocolError);
  await waitUntil("the client is back", () => transport.epoch === 2);
  assertEquals(transport.connectError, undefined);
  await transport.delete("/a");
});

Deno.test("The transport does not connect any more when it is destroyed while its servers are listed", async () => {
  await using server = startScriptedServer(async ({ next }) => void await next());
  const listed = Promise.withResolvers<readonly ServerAddress[]>();
  using transport = await openTransport(server.port, {
    until: "connecting",
    listServers: () => listed.promise,
  });
  transport.destroy();
  await Promise.resolve(); // The attempts end a microtask later.
  listed.resolve([{ host: "127.0.0.1", port: server.port }]);
  await settle(); // The test runner would report the timer of an attempt.
  assertEquals(server.accepted, 0);
});
