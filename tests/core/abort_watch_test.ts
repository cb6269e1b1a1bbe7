import { assertEquals, assertLess } from "@std/assert";
import { CallSignal, callSignal, unwatchAbort, watchAbort } from "../../core/time/abort_watch.ts";
import { countListeners } from "../../testing/core/count_listeners.ts";
import { cpuTimeMs } from "../../testing/core/cpu_time.ts";

Deno.test("watchAbort() notifies the listeners of a signal, once it aborts", () => {
  const [one, other] = [new AbortController(), new AbortController()];
  const log: string[] = [];
  const listener = (name: string) => ({ onAborted: () => void log.push(name) });
  const gone = listener("gone");
  watchAbort(one.signal, listener("a"));
  watchAbort(one.signal, gone);
  watchAbort(one.signal, listener("b"));
  watchAbort(other.signal, listener("other"));
  unwatchAbort(one.signal, gone);
  unwatchAbort(new AbortController().signal, gone);
  one.abort();
  assertEquals(log, ["a", "b"]);
});

Deno.test("unwatchAbort() leaves no event listener on a signal without listeners", () => {
  const { signal } = new AbortController();
  const count = countListeners(signal);
  const listeners = Array.from({ length: 3 }, () => ({ onAborted: () => {} }));
  for (const listener of listeners) watchAbort(signal, listener);
  assertEquals(count(), 1);
  for (const listener of listeners) unwatchAbort(signal, listener);
  assertEquals(count(), 0);
});

Deno.test("watchAbort() takes constant time per listener when 100,000 watch one signal", () => {
  const { signal } = new AbortController();
  const startMs = cpuTimeMs();
  const listeners = Array.from({ length: 100_000 }, () => ({ onAborted: () => {} }));
  for (const listener of listeners) watchAbort(signal, listener);
  for (const listener of listeners) unwatchAbort(signal, listener);
  assertLess(cpuTimeMs() - startMs, 5_000);
});

Deno.test("CallSignal aborts with the first of its signals, and leaves no listener after the end", () => {
  const [caller, disposal] = [new AbortController(), new AbortController()];
  const counts = [countListeners(caller.signal), countListeners(disposal.signal)];
  const calls = Array.from({ length: 3 }, () => new CallSignal(caller.signal, disposal.signal));
  assertEquals(counts.map((count) => count()), [1, 1]);
  calls[0]!.end();
  disposal.abort("disposed");
  caller.abort("left");
  assertEquals(calls.map(({ signal }) => signal.reason), [undefined, "disposed", "disposed"]);
  for (const call of calls) call.end();
  assertEquals(counts.map((count) => count()), [0, 0]);
  const late = new CallSignal(undefined, caller.signal);
  assertEquals(late.signal.reason, "left");
  late.end();
  const left = new CallSignal();
  left.abort("time is over");
  assertEquals(left.signal.reason, "time is over");
});

Deno.test("callSignal() is the signal of disposal itself, unless the caller has one, and ends with either", () => {
  const [caller, disposal] = [new AbortController(), new AbortController()];
  const counts = [countListeners(caller.signal), countListeners(disposal.signal)];
  const plain = callSignal(undefined, disposal.signal);
  assertEquals([plain.signal === disposal.signal, ...counts.map((count) => count())], [true, 0, 0]);
  const [first, second] = [caller.signal, caller.signal].map((signal) =>
    callSignal(signal, disposal.signal)
  );
  first!.end();
  caller.abort("left");
  assertEquals([first!.signal.reason, second!.signal.reason], [undefined, "left"]);
  for (const call of [plain, second!]) call.end();
  assertEquals(counts.map((count) => count()), [0, 0]);
});
