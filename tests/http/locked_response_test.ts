import { assert, assertEquals } from "@std/assert";
import { block } from "../../testing/conformance/bounds.ts";
import { LockedResponse, type LossListener } from "../../http/internal/node_response.ts";
import { HANDLER_OPTIONS, readOptions } from "../../http/internal/options.ts";
import type { NodeResponse } from "../../http/shared/server.ts";
import { type Lease, MemoryLock } from "../../mod.ts";

/** A `node:http` response that records the calls. */
class FakeResponse implements NodeResponse {
  readonly log: string[] = [];
  readonly #listeners: Partial<Record<"close" | "pipe", () => void>> = {};
  destroyed = false;
  headersSent = false;
  end: (...args: never[]) => unknown = () => this.log.push("end");

  on(event: "close" | "pipe", listener: () => void): void {
    this.#listeners[event] = listener;
  }

  destroy(): void {
    this.log.push("destroy");
  }

  /** Closes the connection, as a client would. */
  close(): void {
    this.#listeners.close?.();
  }
}

/** How long in ms a lease lasts that ends in a test. */
const HOLD_MS = 20;

interface Bench {
  readonly response: FakeResponse;
  readonly lease: Lease;
  readonly locked: LockedResponse;
  readonly losses: boolean[];
  isFree(): Promise<boolean>;
}

async function open(
  locks: MemoryLock,
  isHandlerRunning: boolean,
  maxHoldMs = 60_000,
): Promise<Bench> {
  const response = new FakeResponse();
  const lease = await locks.acquire("key", { maxHoldMs });
  const losses: boolean[] = [];
  const listener: LossListener = { onLeaseLost: (isRunning) => void losses.push(isRunning) };
  const locked = new LockedResponse(response);
  const settings = readOptions("a test", "key", HANDLER_OPTIONS);
  locked.hold(lease, settings, listener);
  if (isHandlerRunning) locked.startHandler();
  const isFree = async () => (await locks.query("key")).holders.length === 0;
  return { response, lease, locked, losses, isFree };
}

/** The same with a lease for {@linkcode HOLD_MS}, which is not over yet. */
async function openInTime(locks: MemoryLock): Promise<Bench> {
  for (;;) {
    const bench = await open(locks, true, HOLD_MS);
    if (bench.losses.length === 0) return bench;
  }
}

async function turns(): Promise<void> {
  for (let turn = 0; turn < 30; turn++) await null;
}

Deno.test("LockedResponse releases before the end is sent when the handler has ended", async () => {
  await using locks = new MemoryLock();
  const { response, locked, isFree } = await open(locks, true);
  locked.handlerEnded();
  assert(!await isFree());
  response.end();
  assertEquals(response.log, [], "the end waits for the release");
  await turns();
  assertEquals([response.log, await isFree()], [["end"], true]);
});

Deno.test("LockedResponse keeps the lock until the handler ends when the response is over or the client disconnects", async () => {
  for (const isGone of [false, true]) {
    await using locks = new MemoryLock();
    const { response, locked, isFree } = await open(locks, false);
    assert(locked.startHandler());
    if (isGone) response.close();
    else response.end();
    await turns();
    assertEquals([response.log, await isFree()], [isGone ? [] : ["end"], false]);
    locked.handlerEnded();
    await turns();
    assert(await isFree());
  }
});

Deno.test("LockedResponse releases before the end is sent when the handler waits for that end", async () => {
  await using locks = new MemoryLock();
  const { response, locked, isFree } = await open(locks, true);
  locked.beforeEnd(() => locked.handlerEnded());
  response.headersSent = true;
  response.end();
  assertEquals(response.log, []);
  await turns();
  assertEquals([response.log, await isFree()], [["end"], true]);
});

Deno.test("LockedResponse notifies its listener of a lost lease, and breaks off a response that has begun", async () => {
  for (const hasBegun of [false, true]) {
    for (const isRunning of [false, true]) {
      await using locks = new MemoryLock();
      const { response, losses } = await open(locks, isRunning);
      response.headersSent = hasBegun;
      await locks.request("key", { steal: true }, () => {});
      assertEquals(losses, hasBegun ? [] : [isRunning]);
      assertEquals(response.log, hasBegun ? ["destroy"] : []);
    }
  }
});

Deno.test("LockedResponse breaks off a response whose lease has expired when its end is called, before any timer ran", async () => {
  for (const isHandlerRunning of [false, true]) {
    for (const hasBegun of [false, true]) {
      await using locks = new MemoryLock();
      const { response, locked, losses } = await openInTime(locks);
      response.headersSent = hasBegun;
      if (!isHandlerRunning) locked.handlerEnded();
      block(2 * HOLD_MS);
      response.end();
      assertEquals([response.log[0], losses], ["destroy", []], `${isHandlerRunning} ${hasBegun}`);
      locked.handlerEnded();
      await turns();
    }
  }
});

Deno.test("LockedResponse releases once, and refuses to start a handler after that", async () => {
  await using locks = new MemoryLock();
  const { response, lease, locked, losses } = await open(locks, true);
  response.end();
  locked.handlerEnded();
  assert(!locked.startHandler());
  locked.handlerEnded();
  await turns();
  assertEquals(await lease.release(), false);
  assertEquals([response.log, losses], [["end"], []]);
});

Deno.test("LockedResponse sends the end once, and does not abort abandoned when the client disconnects after", async () => {
  await using locks = new MemoryLock();
  const { response, locked } = await open(locks, false);
  response.end();
  response.end();
  response.close();
  locked.breakOff();
  assertEquals([response.log, locked.abandoned.aborted], [[], false]);
  await turns();
  assertEquals(response.log, ["end"]);
});

Deno.test("LockedResponse releases at once when the client has disconnected before it holds the lock", async () => {
  await using locks = new MemoryLock();
  const response = new FakeResponse();
  const locked = new LockedResponse(response);
  response.close();
  assert(locked.abandoned.aborted);
  const settings = readOptions("a test", "key", HANDLER_OPTIONS);
  locked.hold(await locks.acquire("key"), settings, { onLeaseLost() {} });
  assert(!locked.startHandler());
  await turns();
  assertEquals((await locks.query("key")).holders, []);
});

Deno.test("LockedResponse aborts abandoned when the response ends before it holds the lock, and sends that end at once", () => {
  const response = new FakeResponse();
  const locked = new LockedResponse(response);
  response.end();
  assertEquals([response.log, locked.abandoned.aborted], [["end"], true]);
});

Deno.test("LockedResponse refuses to start a handler whose lease is lost", async () => {
  await using locks = new MemoryLock();
  const { locked, losses } = await open(locks, false);
  await locks.request("key", { steal: true }, () => {});
  assertEquals([locked.startHandler(), losses], [false, [false]]);
});
