/**
 * The process behind `startCrowd()`. It prints the size of its heap when it is connected and when all have
 * begun, and then the figure that each line of its input asks for.
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
import type { CrowdOptions, CrowdOrder } from "./crowd.ts";

/** Calls under way while the locks are acquired. */
const AT_ONCE = 100;

v8.setFlagsFromString("--expose-gc");
const collectGarbage: () => void = vm.runInNewContext("gc");

function tell(order: CrowdOrder): void {
  print(`${order === "cpu" ? cpuUs() : heapBytes()}\n`);
}

function cpuUs(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

function heapBytes(): number {
  collectGarbage();
  collectGarbage();
  return process.memoryUsage().heapUsed;
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
  tell("heap");
  const holds = kind === "hold" ? await hold(open, options) : [];
  const waits = kind === "hold" ? [] : Array.from({ length: count }, () => open.acquire(name));
  tell("heap");
  const orders = linesOf(scriptInput());
  for (let order; (order = await orders.next()) !== null;) tell(order as CrowdOrder);
  holds.length = waits.length = 0; // they were in use until here
}

if (import.meta.main) {
  globalThis.addEventListener("unhandledrejection", (event) => event.preventDefault());
  await main(scriptArgument());
  Deno.exit(0); // connections of some packages are still open
}
