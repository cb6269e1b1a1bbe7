/**
 * The route handler of `examples/nextjs/`, called as Next.js calls it. `tests/npm/next_test.ts` runs it in
 * Next.js itself.
 */
import { assertEquals } from "@std/assert";
import process from "node:process";

/** The type that Next.js demands of a route handler, by its documentation. */
type RouteHandler<Params> = (
  request: Request,
  context: { params: Promise<Params> },
) => Promise<Response> | Response;

// The route's lock, with its timer, lives as long as the process.
const UNBOUNDED = { sanitizeOps: false, sanitizeResources: false };

Deno.test(
  "a route handler of Next.js under fetchLock() has Next's type, and runs one request at a time",
  UNBOUNDED,
  async () => {
    const dir = await Deno.makeTempDir();
    process.env["LOCK_DIR"] = dir;
    const { POST } = await import("../../examples/nextjs/route.ts");
    delete process.env["LOCK_DIR"];
    const handler: RouteHandler<{ id: string }> = POST;
    const post = async (id: string) => {
      const request = new Request(`http://localhost/orders/${id}`, { method: "POST" });
      return await handler(request, { params: Promise.resolve({ id }) });
    };
    const responses = await Promise.all(Array.from({ length: 5 }, () => post("42")));
    assertEquals(responses.map(({ status }) => status), Array(5).fill(200));
    const holds = await Promise.all(responses.map((response) => response.json()));
    const sorted = holds.toSorted((a, b) => a.held[0] - b.held[0]);
    for (const [i, { held }] of sorted.entries()) {
      if (i > 0) assertEquals(held[0] >= sorted[i - 1].held[1], true);
    }
    for (const id of ["042", "a", "%ff"]) {
      const { status, body } = await post(id);
      await body?.cancel();
      assertEquals(status, id === "%ff" ? 400 : 404);
    }
    await Deno.remove(dir, { recursive: true });
  },
);
