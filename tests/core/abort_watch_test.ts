import { assertEquals, assertLess } from "@std/assert";
import { AbortWatch } from "../../core/time/abort_watch.ts";
import { countListeners } from "../../testing/core/count_listeners.ts";
import { cpuTimeMs } from "../../testing/core/cpu_time.ts";

Deno.test("AbortWatch notifies the listeners of a signal, once it aborts", () => {
  const watch = new AbortWatch();
  const [one, other] = [new AbortController(), new AbortController()];
  const log: string[] = [];
  const listener = (name: string) => ({ onAborted: () => void log.push(name) });
  const gone = listener("gone");
  watch.add(one.signal, listener("a"));
  watch.add(one.signal, gone);
  watch.add(one.signal, listener("b"));
  watch.add(other.signal, listener("other"));
  watch.delete(one.signal, gone);
  watch.delete(new AbortController().signal, gone);
  one.abort();
  assertEquals(log, ["a", "b"]);
});

Deno.test("AbortWatch leaves no event listener on a signal without listeners", () => {
  const watch = new AbortWatch();
  const { signal } = new AbortController();
  const count = countListeners(signal);
  const listeners = Array.from({ length: 3 }, () => ({ onAborted: () => {} }));
  for (const listener of listeners) watch.add(signal, listener);
  assertEquals(count(), 1);
  for (const listener of listeners) watch.delete(signal, listener);
  assertEquals(count(), 0);
});

Deno.test("AbortWatch takes constant time per listener when 100,000 watch one signal", () => {
  const watch = new AbortWatch();
  const { signal } = new AbortController();
  const startMs = cpuTimeMs();
  const listeners = Array.from({ length: 100_000 }, () => ({ onAborted: () => {} }));
  for (const listener of listeners) watch.add(signal, listener);
  for (const listener of listeners) watch.delete(signal, listener);
  assertLess(cpuTimeMs() - startMs, 5_000);
});
