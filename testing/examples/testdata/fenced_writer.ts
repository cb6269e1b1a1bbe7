/** Writes with the tokens on each line of its input, and prints the outcomes. */
import { FencedStore } from "../../../examples/fenced_store.ts";
import { linesOf } from "../../runtime/lines.ts";
import { print, scriptArgument, scriptInput } from "../../runtime/processes.ts";

const { path, key, value } = scriptArgument<Record<string, string>>();
using store = new FencedStore(path!);
const lines = linesOf(scriptInput());
for (let line; (line = await lines.next()) !== null;) {
  const answers = line.split(" ").map((token) => store.write(key!, value!, BigInt(token)));
  print(`${JSON.stringify(answers)}\n`);
}
