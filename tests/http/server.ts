/**
 * A process that serves the same routes in each framework, for {@linkcode startServers}. Prints its
 * ports, then what happens in its handlers; lines on its input open gates.
 *
 * @module
 */
import { openLock } from "../conformance/open_lock.ts";
import { nowUs } from "../processes/clock.ts";
import { FRAMEWORKS } from "./frameworks.ts";
import { Gates, type HandlerEvent } from "./handler.ts";
import type { ServerOptions } from "./servers.ts";

async function main({ spec, frameworks }: ServerOptions): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const { lock } = stack.use(await openLock(spec));
  const print = (line: unknown) => {
    Deno.stdout.writeSync(new TextEncoder().encode(`${JSON.stringify(line)}\n`));
  };
  const gates = new Gates();
  const report = (event: Omit<HandlerEvent, "atUs">) => print({ ...event, atUs: nowUs() });
  const urls: Record<string, string> = {};
  for (const name of frameworks) {
    const served = await FRAMEWORKS[name]({ lock, gates, report });
    stack.use(served);
    urls[name] = served.url;
  }
  print({ urls });
  const lines = Deno.stdin.readable.pipeThrough(new TextDecoderStream());
  for await (const text of lines) for (const gate of text.trim().split("\n")) gates.open(gate);
}

if (import.meta.main) {
  await main(JSON.parse(Deno.args[0]!));
  Deno.exit(0); // clients that went away may have left sockets behind
}
