/**
 * The process behind {@linkcode startBystander}: measures how long a server takes to answer.
 *
 * @module
 */
import { linesOf } from "../runtime/lines.ts";
import { print, scriptArgument, scriptInput } from "../runtime/processes.ts";
import { connectResp } from "../servers/resp.ts";
import { pause } from "../servers/wait.ts";
import type { Delays } from "./bystander.ts";

const EVERY_MS = 10;

/** The greatest delays in ms. */
function summary(delays: number[]): Delays {
  delays.sort((a, b) => a - b);
  const at = (part: number) =>
    delays[Math.min(delays.length - 1, Math.floor(part * delays.length))]!;
  return { count: delays.length, p99Ms: at(0.99), worstMs: at(1), secondMs: delays.at(-2) ?? 0 };
}

/** Sends a PING every 10 ms. Each line of input is answered by the delays since the line before. */
async function main({ url }: { url: string }): Promise<void> {
  using connection = await connectResp(url);
  let delays: number[] = [];
  let isDone = false;
  const pinging = (async () => {
    while (!isDone) {
      const startMs = performance.now();
      await connection.command("PING");
      delays.push(performance.now() - startMs);
      await pause(EVERY_MS);
    }
  })();
  const orders = linesOf(scriptInput());
  while (await orders.next() !== null) {
    print(`${JSON.stringify(summary(delays))}\n`);
    delays = [];
  }
  isDone = true;
  await pinging;
}

if (import.meta.main) await main(scriptArgument());
