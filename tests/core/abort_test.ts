import { assertEquals, assertRejects } from "@std/assert";
import { setImmediate } from "node:timers";
import { abortable } from "../../core/time/clock.ts";
import { countListeners } from "../../testing/core/count_listeners.ts";

Deno.test("abortable() ignores a late rejection when the signal has aborted before", async () => {
  const reason = new Error("too late");
  const late = Promise.withResolvers<never>();
  // An unhandled rejection would fail the test, just as it ends a user's process.
  await assertRejects(() => abortable(late.promise, AbortSignal.abort(reason)), Error, "too late");
  late.reject(new Error("ignored"));
  await new Promise((resolve) => setImmediate(resolve));
});

Deno.test("abortable() settles as its promise does, or rejects when the signal aborts first", async () => {
  const abort = new AbortController();
  const listeners = countListeners(abort.signal);
  assertEquals(await abortable(Promise.resolve(1), abort.signal), 1);
  assertEquals(listeners(), 0);
  const late = Promise.withResolvers<never>();
  const waiting = abortable(late.promise, abort.signal);
  abort.abort(new Error("enough"));
  late.reject(new Error("ignored"));
  await assertRejects(() => waiting, Error, "enough");
});
