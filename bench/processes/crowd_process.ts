/**
 * The process behind `startCrowd()`. It prints its counters when it is connected, when all have begun, and
 * for each line that it reads.
 *
 * @module
 */
import process from "node:process";
import v8 from "node:v8";
import vm from "node:vm";
import { linesOf } from "../../testing/runtime/lines.ts";
import { print, scriptArgument, scriptInput } from "../../testing/runtime/processes.ts";
import { contenderOf, SETTINGS } from "../contenders/all.ts";
import type { Hold, OpenContender } from "../library/contender.ts";
import type { CrowdOptions, CrowdReading } from "./crowd.ts";

/** Calls under way while the locks are acquired. */
const AT_ONCE = 100;

v8.setFlagsFromString("--expose-gc");
const collectGarbage: () => void = vm.runInNewContext("gc");

function tell(): void {
  collectGarbage();
  collectGarbage();
  const { user, system } = process.cpuUsage();
  const reading: CrowdReading = {
    cpuUs: user + system,
    heapBytes: process.memoryUsage().heapUsed,
  };
  print(`${JSON.stringify(reading)}\n`);
}

async function hold(open: OpenContender, { name, count }: CrowdOptions): Promise<Hold[]> {
  const holds: Hold[] = [];
  for (let i = 0; i < count; i += AT_ONCE) {
    const names = Array.from(
      { length: Math.min(AT_ONCE, count - i) },
      (_, index) => `${name}:${i + index}`,
    );
    holds.push(...await Promise.all(names.map((each) => open.acquire(each))));
  }
  return holds;
}

async function main(options: CrowdOptions): Promise<void> {
  const { id, url, ttlMs, kind, name, count } = options;
  const open = await contenderOf(id).open(url, { ...SETTINGS, ttlMs });
  await (await open.acquire("warm-up")).release();
  tell();
  const holds = kind === "hold" ? await hold(open, options) : [];
  const waits = kind === "hold" ? [] : Array.from({ length: count }, () => open.acquire(name));
  tell();
  const orders = linesOf(scriptInput());
  while (await orders.next() !== null) tell();
  holds.length = waits.length = 0; // they were in use until here
}

if (import.meta.main) {
  globalThis.addEventListener("unhandledrejection", (event) => event.preventDefault());
  await main(scriptArgument());
  Deno.exit(0); // connections of some packages are still open
}
