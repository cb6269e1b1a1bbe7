/** The route handler of `examples/nextjs/` in Next.js itself: in the soak only, as Next takes 350 MB. */
import { assertEquals, assertGreaterOrEqual } from "@std/assert";
import { buildNextApp, NEXT_PACKAGES } from "../../testing/npm/next_app.ts";
import { installSkip } from "../../testing/npm/install.ts";
import { NODE_22, runtimeSkip } from "../../testing/npm/runtimes.ts";

const REQUESTS = 40;
const ROUTE = Deno.readTextFileSync(new URL("../../examples/nextjs/route.ts", import.meta.url));

if (Deno.env.get("HOLDFAST_SOAK")) {
  const skip = await installSkip(NEXT_PACKAGES) ?? await runtimeSkip(NODE_22);
  Deno.test({
    name: "fetchLock() of the npm package locks a route handler of Next.js in two processes" +
      (skip === undefined ? "" : ` [skipped: ${skip}]`),
    ignore: skip !== undefined,
    async fn() {
      await using app = await buildNextApp({ "app/orders/[id]/route.ts": ROUTE });
      await using a = await app.start();
      await using b = await app.start();
      const holds = await Promise.all(Array.from({ length: REQUESTS }, async (_, i) => {
        const url = `${i % 2 ? a.url : b.url}/orders/42`;
        const response = await fetch(url, { method: "POST" });
        assertEquals(response.status, 200);
        return (await response.json()).held as [number, number];
      }));
      const sorted = holds.toSorted(([one], [other]) => one - other);
      for (const [i, [fromMs]] of sorted.entries()) {
        if (i > 0) assertGreaterOrEqual(fromMs, sorted[i - 1]![1], "no two requests at a time");
      }
      const missing = await fetch(`${a.url}/orders/042`, { method: "POST" });
      assertEquals([missing.status, (await missing.json()).detail], [404, "No such order"]);
    },
  });
}
