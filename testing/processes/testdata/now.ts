/**
 * Prints the time in µs for each line of its input.
 *
 * @module
 */
import { linesOf } from "../../runtime/lines.ts";
import { print, scriptInput } from "../../runtime/processes.ts";
import { nowUs } from "../machine_clock.ts";

const orders = linesOf(scriptInput());
while (await orders.next() !== null) {
  print(`${nowUs()}\n`);
}
