import { assertEquals, assertRejects } from "@std/assert";
import { abortable } from "../../core/abort.ts";

Deno.test("abortable() hears what it does not wait for", async () => {
  const reason = new Error("too late");
  const late = Promise.withResolvers<never>();
  // What nobody hears would fail the test, as it ends a user's process.
  await assertRejects(() => abortable(late.promise, AbortSignal.abort(reason)), Error, "too late");
  late.reject(new Error("unheard"));
  await new Promise((resolve) => setTimeout(resolve));
});

Deno.test("abortable() has the outcome, or the signal's reason if that comes first", async () => {
  const abort = new AbortController();
  assertEquals(await abortable(Promise.resolve(1), abort.signal), 1);
  const late = Promise.withResolvers<never>();
  const waiting = abortable(late.promise, abort.signal);
  abort.abort(new Error("enough"));
  late.reject(new Error("unheard"));
  await assertRejects(() => waiting, Error, "enough");
});
