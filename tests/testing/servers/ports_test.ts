/** Processes of all clones on a machine share its ports. */
import { assert, assertEquals } from "@std/assert";
import { startChild } from "../../../testing/processes/child.ts";
import { freeClusterPort, freePort } from "../../../testing/servers/ports.ts";

const SCRIPT = new URL("../../../testing/servers/testdata/print_ports.ts", import.meta.url);

Deno.test("freePort() and freeClusterPort() return no port of another process", async () => {
  await using stack = new AsyncDisposableStack();
  const children = Array.from({ length: 4 }, () => stack.use(startChild(SCRIPT, null)));
  const lines = await Promise.all(children.map((child) => child.line()));
  const others = lines.map((line) => (JSON.parse(line!) as number[][]).flat());
  const own = Array.from({ length: 60 }, () => [freePort(), freeClusterPort()]).flat();
  const sets = [own, ...others].map((ports) => new Set(ports));
  const all = new Set(sets.flatMap((ports) => [...ports]));
  assertEquals(all.size, sets.reduce((sum, { size }) => sum + size, 0));
  for (const child of children) assertEquals(await child.end(), 0);
});

Deno.test("freePort() returns each port of its block in turn, and none that is in use", () => {
  const first = freePort();
  using listener = Deno.listen({ hostname: "127.0.0.1", port: freePort() });
  const ports = Array.from({ length: 200 }, () => freePort());
  assert(!ports.includes(listener.addr.port));
  assert(ports.indexOf(first) > 20, "a port should not come again soon");
});
