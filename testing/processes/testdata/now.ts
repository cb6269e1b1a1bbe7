/**
 * A process that tells the time.
 *
 * @module
 */
import { linesOf } from "../child.ts";
import { nowUs } from "../clock.ts";

const orders = linesOf(Deno.stdin.readable);
while (await orders.next() !== null) {
  Deno.stdout.writeSync(new TextEncoder().encode(`${nowUs()}\n`));
}
