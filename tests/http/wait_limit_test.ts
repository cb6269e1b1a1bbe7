import { assert, assertEquals } from "@std/assert";
import { WaitLimit } from "../../http/internal/wait_limit.ts";
import { pause } from "../../testing/servers/wait.ts";

Deno.test("WaitLimit ends a wait after its time limit, and hasTimedOut is true", async () => {
  using limit = new WaitLimit(5, []);
  await pause(50);
  assert(limit.signal.aborted && limit.hasTimedOut && limit.hasCaused(limit.signal.reason));
  assert(!limit.hasCaused(new Error("Another")));
});

Deno.test("WaitLimit ends a wait when one of its signals aborts or has aborted before", async () => {
  for (const isEarly of [true, false]) {
    const [end, other] = [new AbortController(), new AbortController()];
    if (isEarly) end.abort();
    using limit = new WaitLimit(5, [other.signal, end.signal]);
    end.abort();
    assert(limit.signal.aborted);
    await pause(50);
    assertEquals([limit.hasTimedOut, limit.signal.reason.name], [false, "AbortError"]);
  }
});

Deno.test("WaitLimit never aborts after its disposal", async () => {
  const end = new AbortController();
  const limit = new WaitLimit(5, [end.signal]);
  limit[Symbol.dispose]();
  end.abort();
  await pause(50);
  assertEquals([limit.signal.aborted, limit.hasTimedOut], [false, false]);
});
