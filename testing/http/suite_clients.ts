/**
 * Steps of the suite: clients that disconnect, handlers that throw, streams and HEAD requests.
 *
 * @module
 */
import { assertEquals, assertGreater, assertRejects } from "@std/assert";
import { connectHttp2 } from "./http2_client.ts";
import { waitUntil } from "../servers/wait.ts";
import type { Stage, Step } from "./stage.ts";

/** Returns the steps. Behind Lambda, API Gateway keeps the clients, and nothing is streamed. */
export function clientSteps({ framework }: Stage): Step[] {
  const always: Step[] = [["answers 500 and frees the lock when the handler throws", throws]];
  if (framework === "lambda") return always;
  return [
    ...always,
    ["never runs the handler when the client disconnects before the lock is asked for", leftEarly],
    ["leaves the queue when a waiting client disconnects", leavesQueue],
    ["holds the lock until the handler ends when the client disconnects", goesAway],
    ["holds the lock until a stream has ended", streams],
    ["frees the lock when the client cancels a stream", cancels],
    ["breaks off a stream that nobody reads after maxHoldMs", unread],
    ["holds and frees the lock for a HEAD request", head],
  ];
}

async function throws({ a, b, ask }: Stage): Promise<void> {
  const key = "throws";
  for (let i = 0; i < 3; i++) {
    assertEquals((await ask(a, { path: "/busy", key, mode: "throw" })).status, 500);
    assertEquals((await ask(b, { path: "/busy", key })).status, 200);
  }
}

/** Lets the first server answer other requests, so that it also learns who has left. */
async function answerOthers({ a, ask }: Stage, count: number): Promise<void> {
  for (; count > 0; count--) assertEquals((await ask(a, { path: "/busy" })).status, 200);
}

async function leftEarly(stage: Stage): Promise<void> {
  const { a, ask } = stage;
  const key = "left early";
  // A busy server takes longer to notice that a client has left: more requests come first each time.
  let requests = 1;
  await waitUntil("the handler does not run for a client that has left", async () => {
    const id = `left ${requests *= 4} requests ago`;
    const controller = new AbortController();
    const { signal } = controller;
    const left = ask(a, { path: "/patient", key, id, late: `key ${id}`, signal });
    await a.event(`key ${id}`, "keyed");
    controller.abort();
    await assertRejects(() => left);
    await answerOthers(stage, requests);
    await a.open(`key ${id}`);
    await a.query(key); // answered after the gate has opened
    await stage.untilFree(key);
    return (await a.events(id)).length === 0;
  });
}

async function leavesQueue(stage: Stage): Promise<void> {
  const { a, b, ask } = stage;
  const key = "leaves the queue";
  const holder = ask(a, { path: "/busy", key, id: "kept", mode: "gate" });
  await a.event("kept", "entered");
  const controller = new AbortController();
  const { signal } = controller;
  const waiter = ask(b, { path: "/patient", key, id: "left alone", signal });
  await stage.untilWaiting(b, key, 1);
  controller.abort();
  await assertRejects(() => waiter);
  await stage.untilWaiting(b, key, 0);
  await a.open("kept");
  assertEquals((await holder).status, 200);
  await stage.untilFree(key);
  assertEquals(await b.events("left alone"), [], "the handler never runs");
}

async function goesAway(stage: Stage): Promise<void> {
  const { a, b, open, ask } = stage;
  const key = "goes away";
  const controller = new AbortController();
  const { signal } = controller;
  const holder = open(a, { path: "/busy", key, id: "gone", mode: "gate", signal });
  await a.event("gone", "entered");
  controller.abort();
  await assertRejects(() => holder);
  await answerOthers(stage, 8);
  assertEquals((await ask(b, { path: "/busy", key })).status, 409);
  assertEquals((await a.query(key)).isHeld, true);
  await a.open("gone");
  await stage.untilFree(key);
  assertEquals(await a.events("gone"), ["entered", "left"]);
}

async function streams({ a, b, open, ask }: Stage): Promise<void> {
  const key = "streams";
  const response = await open(a, { path: "/busy", key, id: "stream", mode: "stream" });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  assertEquals((await reader.read()).value, "first ");
  assertEquals((await ask(b, { path: "/busy", key })).status, 409);
  await a.open("stream");
  assertEquals((await reader.read()).value, "last");
  assertEquals((await reader.read()).done, true);
  assertEquals((await ask(b, { path: "/busy", key })).status, 200);
}

async function cancels(stage: Stage): Promise<void> {
  const { a, open } = stage;
  const key = "cancels";
  const response = await open(a, { path: "/busy", key, id: "cancel", mode: "endless" });
  const reader = response.body!.getReader();
  await reader.read();
  await reader.cancel();
  await a.event("cancel", "cancelled");
  await stage.untilFree(key);
}

async function unread(stage: Stage): Promise<void> {
  const { a, b, ask } = stage;
  const key = "unread";
  const target = `/brief?${new URLSearchParams({ key, id: "unread", mode: "endless" })}`;
  const origin = new URL(a.url(stage.framework));
  const sends = stage.protocol === "http/2" ? sendOnHttp2 : sendOnHttp1;
  using _connection = await sends(origin, target);
  await a.event("unread", "entered");
  const other = await ask(b, { path: "/busy", key, id: "unread other" });
  if (other.status === 200) { // this machine was slower than maxHoldMs
    await a.event("unread", "aborted");
    await b.event("unread other", "entered");
    assertGreater(b.atUs("unread other", "entered"), a.atUs("unread", "aborted"));
  } else assertEquals(other.status, 409);
  await stage.untilFree(key);
  await a.event("unread", "aborted");
  await a.event("unread", "cancelled");
}

/** Sends a request whose response nobody reads. */
async function sendOnHttp1({ hostname, port }: URL, target: string): Promise<Disposable> {
  const connection = await Deno.connect({ hostname, port: Number(port) });
  const text = `GET ${target} HTTP/1.1\r\nHost: ${hostname}\r\n\r\n`;
  await connection.write(new TextEncoder().encode(text));
  return connection;
}

// deno-lint-ignore require-await -- async like the other one
async function sendOnHttp2(origin: URL, target: string): Promise<Disposable> {
  const connection = connectHttp2(origin);
  connection.session.request({ ":path": target }).on("error", () => {}); // the server resets it
  return connection;
}

async function head(stage: Stage): Promise<void> {
  const { a, b, ask } = stage;
  const key = "head";
  const holder = ask(a, { path: "/head", key, id: "head", mode: "gate", method: "HEAD" });
  await a.event("head", "entered");
  const refused = await ask(b, { path: "/head", key, method: "HEAD" });
  assertEquals([refused.status, refused.text], [409, ""]);
  await a.open("head");
  const { status, text } = await holder;
  assertEquals([status, text], [200, ""]);
  assertEquals((await ask(b, { path: "/head", key, method: "HEAD" })).status, 200);
  // Fastify reads a stream to its end even if it does not send it.
  const mode = stage.framework === "fastify" ? "stream" : "endless";
  const stream = { path: "/head", key, id: "head stream", mode, method: "HEAD" };
  assertEquals((await ask(a, stream)).status, 200);
  await a.open("head stream");
  assertEquals((await ask(b, { path: "/busy", key })).status, 200);
}
