/**
 * Grants, asks, clean-ups and renewals that cross each other on the wire: held back, and delivered late,
 * by a TCP proxy between the client package and the server.
 */
import { assert, assertEquals, assertGreater, assertRejects } from "@std/assert";
import { ASK, LEAVE, RENEW, type Script } from "../../redis/_scripts.ts";
import { within } from "../conformance/wait.ts";
import type { ChunkHook, Verdict } from "../servers/proxy.ts";
import type { RedisServer } from "../servers/redis.ts";
import { waitUntil } from "../servers/wait.ts";
import { Gate } from "./gated_client.ts";
import { AT_ONCE_MS, isTheOne, play, type Stage } from "./race_stage.ts";

const OWNER = "somebody-with-an-id-of-its-own";

function textOf(chunk: Uint8Array): string {
  return new TextDecoder().decode(chunk);
}

/** Holds back the first that comes to a gate. */
function held(gate: Gate): Verdict {
  const until = gate.pass();
  return until ? { until } : "pass";
}

/** Holds back the first chunk that contains a text. */
function holding(gate: Gate, text: string): ChunkHook {
  return (chunk) => textOf(chunk).includes(text) ? held(gate) : "pass";
}

/** Holds back the answer of the next ask. */
function holdAnswer({ proxy }: Stage, gate: Gate): void {
  let asking = -1;
  proxy.onRequest = (chunk, { id }) => {
    if (textOf(chunk).includes(ASK.sha1)) asking = id;
    return "pass";
  };
  proxy.onReply = (_chunk, { id }) => id === asking ? held(gate) : "pass";
}

/** Takes the first command of a kind off the wire, and all that follows it; or lets it pass. */
function keep({ proxy }: Stage, { sha1 }: Script, verdict: "drop" | "pass"): Promise<Uint8Array> {
  const { promise, resolve } = Promise.withResolvers<Uint8Array>();
  let isKept = false;
  proxy.onRequest = (chunk) => {
    if (isKept || !textOf(chunk).includes(sha1)) return "pass";
    isKept = true;
    resolve(chunk.slice());
    return verdict;
  };
  return promise;
}

/** Delivers it at last, over the connection that it was sent on, as far as the server can tell. */
async function deliver({ port, hostname }: RedisServer, bytes: Uint8Array): Promise<number> {
  using connection = await Deno.connect({ port, hostname });
  const writer = connection.writable.getWriter();
  await writer.write(bytes);
  const buffer = new Uint8Array(1_000);
  const count = await connection.read(buffer);
  const reply = textOf(buffer.subarray(0, count ?? 0));
  const [, state] = /^\*\d+\r\n:(-?\d+)\r\n/.exec(reply) ?? [];
  assert(state !== undefined, reply);
  return Number(state);
}

/** The server's clock is known, as in a service that runs. */
async function warmUp({ lock }: Stage): Promise<void> {
  await (await lock.acquire("warm-up")).release();
}

Deno.test("RedisLock, on the wire: a grant overtakes the answer of the head's next ask", () =>
  play(async (stage) => {
    const gate = new Gate();
    const { held, waiting } = await stage.queueUp();
    holdAnswer(stage, gate);
    await gate.arrived;
    await held.release();
    const lease = await within("the message is enough", waiting, AT_ONCE_MS);
    gate.open();
    await isTheOne(stage, lease);
    assertEquals(await lease.release(), true);
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock, on the wire: the answer of the head's next ask overtakes the grant", () =>
  play(async (stage) => {
    const gate = new Gate();
    const { held, waiting } = await stage.queueUp();
    stage.proxy.onReply = holding(gate, "\r\ng\n");
    await held.release();
    await gate.arrived;
    const lease = await within("the head asks again", waiting, AT_ONCE_MS);
    gate.open();
    await isTheOne(stage, lease);
    assertEquals(await lease.release(), true);
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock, on the wire: the head's next ask comes to the server after the grant", () =>
  play(async (stage) => {
    const gate = new Gate();
    const { held, waiting } = await stage.queueUp();
    stage.proxy.onRequest = holding(gate, ASK.sha1);
    await gate.arrived;
    await held.release();
    const lease = await within("the message is enough", waiting, AT_ONCE_MS);
    gate.open();
    await isTheOne(stage, lease);
    assertEquals(await lease.release(), true);
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock, on the wire: an ask is delivered after its lease was released", () =>
  play(async (stage) => {
    const { server, proxy, lock } = stage;
    await warmUp(stage);
    const kept = keep(stage, ASK, "drop");
    const acquired = lock.acquire("n");
    const ask = await kept;
    proxy.cutAll(); // the client package connects anew, and we ask again
    const lease = await within("it is granted", acquired);
    assertEquals(await lease.release(), true);
    assert(await deliver(server, ask) < 0, "refused by the tombstone, or as too late");
    assertEquals(await stage.holder(), null);
    assertEquals(await stage.waiting(), 0);
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock, on the wire: a clean-up is delivered after the same owner has asked again", () =>
  play(async (stage) => {
    const { server, proxy, lock } = stage;
    await warmUp(stage);
    const gate = new Gate();
    holdAnswer(stage, gate);
    const abort = new AbortController();
    const first = lock.acquire("n", { ownerId: OWNER, signal: abort.signal });
    first.catch(() => {}); // it is awaited later
    await gate.arrived; // granted, but not told
    const kept = keep(stage, LEAVE, "drop");
    abort.abort();
    await assertRejects(() => first, DOMException);
    const leave = await kept;
    proxy.onReply = undefined;
    proxy.cutAll();
    gate.open();
    const lease = await within("it is ours still", lock.acquire("n", { ownerId: OWNER }));
    assert(await deliver(server, leave) <= 0, "it releases nothing");
    await isTheOne(stage, lease);
    assertEquals(await lease.release(), true);
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock, on the wire: a shorter renewal is delivered after a longer one", () =>
  play(async (stage) => {
    const { server, lock } = stage;
    await warmUp(stage); // what is said once to a server is said now
    const lease = await lock.acquire("n");
    const kept = keep(stage, RENEW, "pass");
    await lease.renew(1_000);
    const short = await kept;
    await lease.renew(600_000);
    assertEquals(await deliver(server, short), 1);
    assertGreater(Number(await server.command("PTTL", stage.keys.lock)), 500_000);
    await isTheOne(stage, lease);
    assertEquals(await lease.release(), true);
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock, on the wire: the grant to a waiter is lost with all its connections", () =>
  play(async (stage) => {
    const { proxy } = stage;
    const { held, waiting } = await stage.queueUp();
    proxy.onReply = (chunk) => {
      if (textOf(chunk).includes("\r\ng\n")) proxy.cutAll();
      return "pass";
    };
    await held.release();
    const lease = await within("it asks over a new connection", waiting);
    await waitUntil("it has the lock", async () => (await stage.holder()) !== null);
    await isTheOne(stage, lease);
    assertEquals(await lease.release(), true);
    await stage.freeAtOnce();
  }));
