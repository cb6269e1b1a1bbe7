/** The channels, where strategies do not matter. What each strategy publishes is in the conformance suite. */
import { assertEquals } from "@std/assert";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { RUN_CALL, type Runnable } from "../../core/contract/channels.ts";
import { CHANNELS, MemoryLock } from "../../mod.ts";
import { within } from "../../testing/conformance/bounds.ts";

Deno.test("a traced call is made once, whatever the subscriber's function that runs it returns", async () => {
  await using locks = new MemoryLock();
  const runs: NonNullable<Runnable[typeof RUN_CALL]>[] = [
    (call) => call(),
    (call) => void call() as never,
    (call) => (call(), call()),
    () => undefined as never,
  ];
  for (const run of runs) {
    const listener = (event: unknown) => void ((event as Runnable)[RUN_CALL] = run);
    subscribe(`tracing:${CHANNELS.acquire}:start`, listener);
    const lease = await within("it is granted", locks.acquire("n"));
    unsubscribe(`tracing:${CHANNELS.acquire}:start`, listener);
    assertEquals((await locks.query("n")).holderCount, 1);
    assertEquals(await lease.release(), true);
    assertEquals((await locks.query("n")).holderCount, 0);
  }
});
