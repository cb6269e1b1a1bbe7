/**
 * A process that serves the same routes in each framework, for `startServer()`. Prints its URLs, then
 * the events in its handlers. A line on its input opens a gate, queries a lock (`?name`), or is
 * printed back (`=text`).
 *
 * @module
 */
import { openLock } from "../conformance/open_lock.ts";
import type { LockSnapshot } from "../../mod.ts";
import { linesOf } from "../processes/child.ts";
import { nowUs } from "../processes/machine_clock.ts";
import { FRAMEWORKS } from "./frameworks.ts";
import { Gates, type HandlerEvent } from "./handler.ts";
import type { LockSummary, ServerOptions } from "./server_processes.ts";

async function main({ spec, frameworks, protocol }: ServerOptions): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const { lock } = stack.use(await openLock(spec));
  const print = (line: unknown) => {
    Deno.stdout.writeSync(new TextEncoder().encode(`${JSON.stringify(line)}\n`));
  };
  const gates = new Gates();
  const report = (event: Omit<HandlerEvent, "atUs">) => print({ ...event, atUs: nowUs() });
  const urls: Record<string, string> = {};
  for (const name of frameworks) {
    const served = await FRAMEWORKS[name]({ protocol, lock, gates, report });
    stack.use(served);
    urls[name] = served.url;
  }
  print({ urls });
  const lines = linesOf(Deno.stdin.readable);
  for (let line; (line = await lines.next()) !== null;) {
    if (line.startsWith("?")) print(summary(await lock.query(line.slice(1))));
    else if (line.startsWith("=")) print({ echo: line.slice(1) });
    else gates.open(line);
  }
}

function summary({ name, holders, waiterCount }: LockSnapshot): LockSummary {
  return { name, isHeld: holders.length > 0, waiters: waiterCount };
}

// Without Deno.exit(): if a timer or a socket is left open, the process stays alive, and the test fails.
if (import.meta.main) await main(JSON.parse(Deno.args[0]!));
