/** Writes with the tokens that it is given, one per line, and answers each with the outcome. */
import { FencedStore } from "../../../examples/fenced_store.ts";
import { linesOf } from "../../processes/child.ts";

const { path, key, value }: Record<string, string> = JSON.parse(Deno.args[0]!);
using store = new FencedStore(path!);
const lines = linesOf(Deno.stdin.readable);
for (let line; (line = await lines.next()) !== null;) {
  const answers = line.split(" ").map((token) => store.write(key!, value!, BigInt(token)));
  Deno.stdout.writeSync(new TextEncoder().encode(`${JSON.stringify(answers)}\n`));
}
