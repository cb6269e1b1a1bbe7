/**
 * The process behind `startHolder()`. A line with a name acquires that lock, an empty line releases it. It
 * prints the time when it is ready, when it has called, when the lock is granted, and when it releases.
 *
 * @module
 */
import { nowUs } from "../../testing/processes/machine_clock.ts";
import { linesOf } from "../../testing/runtime/lines.ts";
import { print, scriptArgument, scriptInput } from "../../testing/runtime/processes.ts";
import { contenderOf } from "../contenders/all.ts";
import type { Hold } from "../library/contender.ts";
import type { HolderOptions } from "./holder.ts";

async function main({ id, place, settings }: HolderOptions): Promise<void> {
  const open = await contenderOf(id).open(place, settings);
  await (await open.acquire(`warm-up:${crypto.randomUUID()}`)).release();
  const tell = () => print(`${nowUs()}\n`);
  let hold: Hold | undefined;
  tell();
  const orders = linesOf(scriptInput());
  for (let name; (name = await orders.next()) !== null;) {
    tell();
    if (name === "") await hold?.release();
    else {
      open.acquire(name).then((granted) => {
        hold = granted;
        tell();
      });
    }
  }
}

if (import.meta.main) {
  globalThis.addEventListener("unhandledrejection", (event) => event.preventDefault());
  await main(scriptArgument());
  Deno.exit(0); // connections of some packages are still open
}
