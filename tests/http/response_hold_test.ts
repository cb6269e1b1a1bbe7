import { assert, assertEquals } from "@std/assert";
import { HANDLER_OPTIONS, readOptions } from "../../http/internal/options.ts";
import { type LossListener, ResponseHold } from "../../http/internal/response_hold.ts";
import { type NodeResponse, ResponseWatch } from "../../http/internal/response_watch.ts";
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

interface Bench {
  readonly response: FakeResponse;
  readonly lease: Lease;
  readonly hold: ResponseHold;
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
  const listener: LossListener = { leaseLost: (isRunning) => void losses.push(isRunning) };
  const hold = new ResponseHold(
    lease,
    new ResponseWatch(response),
    isHandlerRunning,
    listener,
    readOptions("a test", "key", HANDLER_OPTIONS),
  );
  const isFree = async () => (await locks.query("key")).holders.length === 0;
  return { response, lease, hold, losses, isFree };
}

async function turns(): Promise<void> {
  for (let turn = 0; turn < 30; turn++) await null;
}

Deno.test("ResponseHold releases before the end is sent when the handler has ended", async () => {
  await using locks = new MemoryLock();
  const { response, hold, isFree } = await open(locks, true);
  hold.handlerEnded();
  assert(!await isFree());
  response.end();
  assertEquals(response.log, [], "the end waits for the release");
  await turns();
  assertEquals([response.log, await isFree()], [["end"], true]);
});

Deno.test("ResponseHold keeps the lock until the handler ends when the response is over or the client disconnects", async () => {
  for (const isGone of [false, true]) {
    await using locks = new MemoryLock();
    const { response, hold, isFree } = await open(locks, false);
    hold.handlerStarted();
    if (isGone) response.close();
    else response.end();
    await turns();
    assertEquals([response.log, await isFree()], [isGone ? [] : ["end"], false]);
    hold.handlerEnded();
    await turns();
    assert(await isFree());
  }
});

Deno.test("ResponseHold releases before the end is sent when the handler waits for that end", async () => {
  await using locks = new MemoryLock();
  const { response, hold, isFree } = await open(locks, true);
  hold.onEnd({ beforeEnd: () => hold.handlerEnded() });
  response.headersSent = true;
  response.end();
  assertEquals(response.log, []);
  await turns();
  assertEquals([response.log, await isFree()], [["end"], true]);
});

Deno.test("ResponseHold notifies its listener of a lost lease, and breaks off a response that has begun", async () => {
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

Deno.test("ResponseHold breaks off a response whose lease has expired when its end is called, before any timer ran", async () => {
  await using locks = new MemoryLock();
  const { response, hold, losses } = await open(locks, true, 20);
  hold.handlerEnded();
  for (const endMs = performance.now() + 40; performance.now() < endMs;);
  response.end();
  assertEquals([response.log[0], losses], ["destroy", []]);
  await turns();
});

Deno.test("ResponseHold releases once, even when a handler starts and ends after that", async () => {
  await using locks = new MemoryLock();
  const { response, lease, hold, losses } = await open(locks, true);
  response.end();
  hold.handlerEnded();
  hold.handlerStarted();
  hold.handlerEnded();
  await turns();
  assertEquals(await lease.release(), false);
  assertEquals([response.log, losses], [["end"], []]);
});

Deno.test("ResponseWatch sends the end once, and aborts gone only when the client disconnects before", () => {
  const response = new FakeResponse();
  const watch = new ResponseWatch(response);
  const freed = Promise.withResolvers<void>();
  watch.listen({ responseOver: () => freed.promise });
  response.end();
  response.end();
  response.close();
  watch.breakOff();
  assertEquals([response.log, watch.gone.aborted], [[], false]);
  freed.resolve();
  const other = new FakeResponse();
  const left = new ResponseWatch(other);
  other.close();
  assert(left.gone.aborted);
  let notified = 0;
  left.listen({ responseOver: () => void notified++ });
  assertEquals(notified, 1);
});
