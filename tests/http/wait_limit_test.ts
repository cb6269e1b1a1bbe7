import { assert, assertEquals } from "@std/assert";
import { WaitLimit } from "../../http/internal/wait_limit.ts";
import { aborted } from "../../testing/conformance/bounds.ts";

/** Timers fire in the order in which they end: once a limit ends that began later, so has an earlier one. */
async function untilLaterLimitEnds(): Promise<void> {
  using later = new WaitLimit(5, []);
  await aborted(later.signal);
}

Deno.test("WaitLimit ends a wait after its time limit, and hasTimedOut is true", async () => {
  using limit = new WaitLimit(5, []);
  await aborted(limit.signal);
  assert(limit.hasTimedOut && limit.hasCaused(limit.signal.reason));
  assert(!limit.hasCaused(new Error("Another")));
});

Deno.test("WaitLimit ends a wait when one of its signals aborts or has aborted before", async () => {
  for (const isEarly of [true, false]) {
    const [end, other] = [new AbortController(), new AbortController()];
    if (isEarly) end.abort();
    using limit = new WaitLimit(5, [other.signal, end.signal]);
    end.abort();
    assert(limit.signal.aborted);
    await untilLaterLimitEnds();
    assertEquals([limit.hasTimedOut, limit.signal.reason.name], [false, "AbortError"]);
  }
});

Deno.test("WaitLimit never aborts after its disposal", async () => {
  const end = new AbortController();
  const limit = new WaitLimit(5, [end.signal]);
  limit[Symbol.dispose]();
  end.abort();
  await untilLaterLimitEnds();
  assertEquals([limit.signal.aborted, limit.hasTimedOut], [false, false]);
});
