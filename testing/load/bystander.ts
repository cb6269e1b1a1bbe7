/**
 * Another program that uses the same server, and notices when it is kept waiting.
 *
 * @module
 */
import { startChild } from "../processes/child.ts";
import { waitUntil } from "../servers/wait.ts";

/** The first answers in a process are slow. */
const WARM_UP_COUNT = 20;

/** How long the server took to answer a PING, in ms. */
export interface Delays {
  readonly count: number;
  readonly p99Ms: number;
  readonly worstMs: number;
  /** The worst but one: a single stall of the machine delays a single PING. */
  readonly secondMs: number;
}

/** A running bystander. */
export interface Bystander extends AsyncDisposable {
  /** The delays since the last call of this function. */
  delays(): Promise<Delays>;
}

/** Starts a process that sends a PING every 10 ms. */
export async function startBystander(url: string): Promise<Bystander> {
  const child = startChild(new URL("./bystander_process.ts", import.meta.url), { url });
  const delays = async () => {
    await child.send("delays");
    return JSON.parse((await child.line())!) as Delays;
  };
  await delays(); // it is connected
  let count = 0;
  await waitUntil("it is warm", async () => (count += (await delays()).count) >= WARM_UP_COUNT);
  return { delays, [Symbol.asyncDispose]: () => child[Symbol.asyncDispose]() };
}

/** The delays in words. */
export function delayText({ p99Ms, worstMs }: Delays): string {
  return `PING of a bystander: 99 % within ${p99Ms.toFixed(1)} ms, worst ${worstMs.toFixed(1)} ms`;
}
