/** Opens a store and writes, for each path that it is given. */
import { FencedStore } from "../../../examples/fenced_store.ts";
import { linesOf } from "../../processes/child.ts";

const lines = linesOf(Deno.stdin.readable);
for (let path; (path = await lines.next()) !== null;) {
  using store = new FencedStore(path);
  Deno.stdout.writeSync(new TextEncoder().encode(`${store.write("k", "v", 1n)}\n`));
}
