/** Opens a store for each path on its input, writes to it, and prints the outcome. */
import { FencedStore } from "../../../examples/fenced_store.ts";
import { linesOf } from "../../runtime/lines.ts";
import { print, scriptInput } from "../../runtime/processes.ts";

const lines = linesOf(scriptInput());
for (let path; (path = await lines.next()) !== null;) {
  using store = new FencedStore(path);
  print(`${store.write("k", "v", 1n)}\n`);
}
