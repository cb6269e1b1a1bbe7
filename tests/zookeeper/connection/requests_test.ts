/**
 * How long the transport waits for answers, shown with a server that answers as slowly as a script says.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { block } from "../../../testing/conformance/bounds.ts";
import { pause, waitUntil } from "../../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS, LONG_BOUND_MS, scaled } from "../../../testing/time.ts";
import { type OpenTransport, openTransport } from "../../../testing/zookeeper/open_transport.ts";
import {
  childrenReply,
  reply,
  startScriptedServer,
} from "../../../testing/zookeeper/scripted_server.ts";
import { ZooKeeperError } from "../../../zookeeper/connection/failures.ts";
import type { Requests } from "../../../zookeeper/connection/requests.ts";

const LIMIT_MS = scaled(1_500);
/** An answer may take twice as long: a stalled machine must not use up the rest. */
const LONG_LIMIT_MS = scaled(2_000);
/** The pause between two answers, or two parts of an answer. */
const PACE_MS = scaled(100);
/** So many paces take longer than the limit, several times. */
const PACES = 40;

Deno.test("The transport keeps its connection while each answer comes in time, however many requests wait", async () => {
  await using server = startScriptedServer(async ({ next, send }) => {
    for (let request; (request = await next()) !== null;) {
      await pause(PACE_MS);
      await send(reply(request.xid));
    }
  });
  using transport = await openTransport(server.port, { requestTimeoutMs: LIMIT_MS });
  await Promise.all(Array.from({ length: PACES }, () => transport.delete("/a")));
  assertEquals(transport.epoch, 1);
});

// Paces a workload: the server is slow, which is the fault.
async function sendSlowly(
  bytes: Uint8Array,
  send: (part: Uint8Array) => Promise<void>,
  paces: number,
  paceMs = PACE_MS,
): Promise<void> {
  const part = Math.ceil(bytes.length / paces);
  for (let at = 0; at < bytes.length; at += part) {
    await pause(paceMs);
    await send(bytes.slice(at, at + part));
  }
}

Deno.test("The transport keeps its connection while a long answer arrives, for twice the limit", async () => {
  const names = Array.from({ length: PACES }, (_, i) => `child-${i}`);
  await using server = startScriptedServer(async ({ next, send }) => {
    for (let request; (request = await next()) !== null;) {
      await sendSlowly(childrenReply(request.xid, names), send, 10, LONG_LIMIT_MS / 8);
    }
  });
  using transport = await openTransport(server.port, { requestTimeoutMs: LONG_LIMIT_MS });
  assertEquals((await transport.children("/a")).names, names);
  assertEquals(transport.epoch, 1);
});

Deno.test("The transport reconnects when an answer arrives byte by byte, and takes too long", async () => {
  await using server = startScriptedServer(async ({ id, next, send }) => {
    for (let request; (request = await next()) !== null;) {
      const bytes = childrenReply(request.xid, ["a", "b", "c"]);
      if (id === 1) await sendSlowly(bytes, send, bytes.length);
      else await send(bytes);
    }
  });
  using transport = await openTransport(server.port, { requestTimeoutMs: LIMIT_MS });
  const error = await assertRejects(() => transport.children("/a"), ZooKeeperError);
  assertEquals(error.code, "TIMEOUT");
  await waitUntil("the client is back", () => transport.epoch === 2, CONDITION_BOUND_MS);
  assertEquals((await transport.children("/a")).names, ["a", "b", "c"]);
});

Deno.test("The transport does not count time in which its event loop was blocked", async () => {
  await using server = startScriptedServer(async ({ next, send }) => {
    const request = await next();
    // No condition: the server answers when the limit would be over without the gap.
    await pause(LIMIT_MS / 2);
    await send(reply(request!.xid));
    await next();
  });
  using transport = await openTransport(server.port, { requestTimeoutMs: LIMIT_MS });
  const answered = transport.delete("/a");
  block(2 * LIMIT_MS);
  await answered;
  assertEquals(transport.epoch, 1);
});

Deno.test("The transport reconnects when an answer stops half-way", async () => {
  await using server = startScriptedServer(async ({ id, next, send }) => {
    for (let request; (request = await next()) !== null;) {
      await send(id > 1 ? reply(request.xid) : reply(request.xid).slice(0, 10));
    }
  });
  using transport = await openTransport(server.port, { requestTimeoutMs: LIMIT_MS });
  const error = await assertRejects(() => transport.delete("/a"), ZooKeeperError);
  assertEquals(error.code, "TIMEOUT");
  await waitUntil("the client is back", () => transport.epoch === 2, CONDITION_BOUND_MS);
  await transport.delete("/a");
});

Deno.test("The transport leaves at most 256 requests without an answer, and a heartbeat more", async () => {
  const early: string[] = [];
  await using server = startScriptedServer(async ({ next, send }) => {
    const unanswered: number[] = [];
    for (let request; (request = await next()) !== null;) {
      unanswered.push(request.xid);
      if (early.at(-1) !== "setData") early.push(request.operation);
      if (early.at(-1) === "setData") await send(...unanswered.splice(0).map((xid) => reply(xid)));
    }
  });
  using transport = await openTransport(server.port, { requestTimeoutMs: LONG_BOUND_MS });
  const calls = Array.from({ length: 600 }, () => transport.delete("/a"));
  await Promise.all([transport.set("/heartbeat"), ...calls]);
  assertEquals(early, [...Array(256).fill("delete"), "setData"]);
});

Deno.test("The transport reconnects, and fails all requests, when the answers stop", async () => {
  await using server = startScriptedServer(async ({ id, next, send }) => {
    for (let request; (request = await next()) !== null;) {
      if (id > 1 || request.xid <= 2) await send(reply(request.xid));
    }
  });
  using transport = await openTransport(server.port, { requestTimeoutMs: LIMIT_MS });
  const calls = await Promise.allSettled([1, 2, 3, 4].map(() => transport.delete("/a")));
  const seen = calls.map((call) => call.status === "fulfilled" ? "done" : call.reason.code);
  assertEquals(seen, ["done", "done", "TIMEOUT", "TIMEOUT"]);
  await waitUntil("the client is back", () => transport.epoch === 2, CONDITION_BOUND_MS);
  await transport.delete("/a");
});

Deno.test("The transport sets one timer for all unanswered requests", async () => {
  await using server = startScriptedServer(async ({ next }) => {
    while (await next() !== null);
  });
  using transport = await openTransport(server.port, { requestTimeoutMs: LIMIT_MS });
  using timers = countTimers();
  const calls = Array.from({ length: 1_000 }, () => transport.delete("/a"));
  const { count } = timers;
  for (const call of await Promise.allSettled(calls)) assertEquals(call.status, "rejected");
  assert(count < 10, `${count} timers were set`);
});

Deno.test("The transport fails requests that were sent as ambiguous, and those that wait as not sent", async () => {
  await using server = startScriptedServer(async ({ next }) => {
    while (await next() !== null);
  });
  using transport = await openTransport(server.port, { requestTimeoutMs: LIMIT_MS });
  const calls = Array.from({ length: 300 }, () => transport.delete("/a"));
  const codes = (await Promise.allSettled(calls)).map((call) =>
    call.status === "rejected" ? call.reason.code : "done"
  );
  assertEquals(codes, [...Array(256).fill("TIMEOUT"), ...Array(44).fill("NOT_CONNECTED")]);
});

Deno.test("The transport sets one timer for requests that follow one another", async () => {
  await using server = startScriptedServer(async ({ next, send }) => {
    for (let request; (request = await next()) !== null;) await send(reply(request.xid));
  });
  using transport = await openTransport(server.port, { requestTimeoutMs: LONG_BOUND_MS });
  using timers = countTimers();
  for (let i = 0; i < 100; i++) await transport.delete("/a");
  assert(timers.count <= 2, `${timers.count} timers were set`);
});

Deno.test("The transport waits for the end of its session for the time of close(), not for that of a request", async () => {
  await using server = startScriptedServer(async ({ next, send }) => {
    const requests = [await next(), await next()];
    assertEquals(requests.map((request) => request?.operation), ["delete", "closeSession"]);
    // No condition: the server is slow, which is the fault.
    await pause(3 * PACE_MS);
    await send(...requests.map((request) => reply(request!.xid)));
  });
  using transport = await openTransport(server.port, { requestTimeoutMs: PACE_MS });
  const call = transport.delete("/a").then(() => "done", ({ code }) => code);
  await transport.close(LONG_BOUND_MS);
  assertEquals(await call, "done");
});

Deno.test("The transport sends nothing after the request that ends its session", async () => {
  const sent = Promise.withResolvers<void>();
  const late: string[] = [];
  await using server = startScriptedServer(async ({ next, send }) => {
    const xids: number[] = [];
    let request = await next();
    for (; request?.operation === "delete"; request = await next()) xids.push(request.xid);
    await send(...xids.map((xid) => reply(xid)));
    await sent.promise;
    await send(reply(request!.xid));
    for (let other; (other = await next()) !== null;) late.push(other.operation);
  });
  using transport = await openTransport(server.port, { requestTimeoutMs: LONG_BOUND_MS });
  const calls = Array.from({ length: 300 }, () => transport.delete("/a"));
  const outcomes = Promise.allSettled(calls);
  const closed = transport.close(LIMIT_MS);
  await Promise.all(calls.slice(0, 256));
  sent.resolve();
  await closed;
  await outcomes;
  await waitUntil("the server has read all", () => server.open === 0, CONDITION_BOUND_MS);
  assertEquals(late, []);
});

/** Counts the timers that are set until it is disposed of. */
function countTimers(): { readonly count: number } & Disposable {
  const { setTimeout: original } = globalThis;
  let count = 0;
  globalThis.setTimeout = ((...args: Parameters<typeof original>) => {
    count++;
    return original(...args);
  }) as typeof original;
  return {
    get count() {
      return count;
    },
    [Symbol.dispose]() {
      globalThis.setTimeout = original;
    },
  };
}

/** The transport's own requests, of which the port shows only `send()`. */
const requestsOf = (transport: OpenTransport) => transport.requests as Requests;

Deno.test("The transport numbers its requests from 1 again at the end of the numbers", async () => {
  const xids: number[] = [];
  await using server = startScriptedServer(async ({ next, send }) => {
    for (let request; (request = await next()) !== null;) {
      xids.push(request.xid);
      await send(reply(request.xid));
    }
  });
  using transport = await openTransport(server.port);
  requestsOf(transport).xid = 2 ** 31 - 2;
  for (let i = 0; i < 3; i++) await transport.delete("/a");
  assertEquals(xids, [2 ** 31 - 1, 1, 2]);
});

Deno.test("The transport sends the requests of one turn of the event loop together", async () => {
  await using server = startScriptedServer(async ({ next, send }) => {
    for (let request; (request = await next()) !== null;) await send(reply(request.xid));
  });
  using transport = await openTransport(server.port);
  const socket = requestsOf(transport).socket!;
  for (let turn = 0; turn < 2; turn++) {
    const calls = Array.from({ length: 3 }, () => transport.delete("/a"));
    assertEquals(socket.writableCorked, 1);
    await Promise.all(calls);
    assertEquals(socket.writableCorked, 0);
  }
});

Deno.test("The transport notices that the answers stop also on the connection after one that was lost", async () => {
  let sessions = 0; // not connections: a stalled client makes one to ask who the server is
  await using server = startScriptedServer(async ({ next, send }) => {
    const session = ++sessions;
    for (let request; (request = await next()) !== null && session > 1;) {
      if (session > 2) await send(reply(request.xid));
    }
  });
  using transport = await openTransport(server.port, { requestTimeoutMs: LIMIT_MS });
  for (const [i, code] of ["CONNECTION_LOSS", "TIMEOUT"].entries()) {
    const error = await assertRejects(() => transport.delete("/a"), ZooKeeperError);
    assertEquals(error.code, code);
    await waitUntil("the client is back", () => transport.epoch === i + 2, CONDITION_BOUND_MS);
  }
  await transport.delete("/a");
});

Deno.test("The transport sends another request for each answer while 256 are without one", async () => {
  let read = 0;
  await using server = startScriptedServer(async ({ next, send }) => {
    const unanswered: number[] = [];
    for (let request; (request = await next()) !== null;) {
      read++;
      unanswered.push(request.xid);
      if (unanswered.length === 256) await send(reply(unanswered.shift()!));
    }
  });
  using transport = await openTransport(server.port, { requestTimeoutMs: LONG_BOUND_MS });
  const calls = Array.from({ length: 300 }, () => transport.delete("/a"));
  await waitUntil("all are sent", () => read === calls.length, CONDITION_BOUND_MS);
  transport.destroy();
  await Promise.allSettled(calls);
});

Deno.test("The transport does not send requests later that have failed while they waited", async () => {
  let sessions = 0; // not connections: a stalled client makes one to ask who the server is
  let read = 0;
  await using server = startScriptedServer(async ({ next, send }) => {
    const isFirst = ++sessions === 1;
    for (let i = 0; !isFirst || i < 256; i++) {
      const request = await next();
      if (request === null) return;
      if (isFirst) continue;
      read++;
      await send(reply(request.xid));
    }
  });
  using transport = await openTransport(server.port, { requestTimeoutMs: LONG_BOUND_MS });
  const send = () => Array.from({ length: 300 }, () => transport.delete("/a"));
  const lost = await Promise.allSettled(send());
  assert(lost.every(({ status }) => status === "rejected"));
  await waitUntil("the client is back", () => transport.epoch === 2, CONDITION_BOUND_MS);
  await Promise.all(send());
  assertEquals(read, 300);
});

Deno.test("The transport keeps its connection while it is idle, and notices after that when the answers stop", async () => {
  await using server = startScriptedServer(async ({ next, send }) => {
    const request = await next();
    if (request === null) return;
    await send(reply(request.xid));
    while (await next() !== null);
  });
  const requestTimeoutMs = scaled(400);
  using transport = await openTransport(server.port, { requestTimeoutMs });
  await transport.delete("/a");
  // No condition: nothing is to happen.
  await pause(2 * requestTimeoutMs);
  assertEquals([transport.state, transport.epoch], ["connected", 1]);
  const error = await assertRejects(() => transport.delete("/a"), ZooKeeperError);
  assertEquals(error.code, "TIMEOUT");
});
