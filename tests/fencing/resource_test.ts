/** A resource that `fencedHttp()` cannot determine: no request may pass under a name that means nothing. */
import { assertEquals, assertRejects } from "@std/assert";
import { fencedHttp, MemoryFences } from "../../fencing/mod.ts";

function ask(resource: (request: Request) => string): Promise<Response> {
  const handler = fencedHttp(new MemoryFences(), resource)(() => new Response("written"));
  return handler(new Request("http://localhost/", { headers: { "if-fence": "7" } }));
}

Deno.test("fencedHttp() answers with the status of an error of the resource when it is 400 to 499", async () => {
  const missing = Object.assign(new Error("No such order"), { statusCode: 404 });
  const response = await ask(() => {
    throw missing;
  });
  assertEquals([response.status, (await response.json()).detail], [404, "No such order"]);
  const spelled = await ask(() => decodeURIComponent("%ff"));
  assertEquals([spelled.status, (await spelled.json()).title], [400, "Bad request"]);
});

Deno.test("fencedHttp() rejects when the resource is not a string, or its function has a bug", async () => {
  await assertRejects(() => ask(() => undefined as unknown as string), TypeError, "a string");
  await assertRejects(
    () =>
      ask(() => {
        throw new RangeError("A bug");
      }),
    RangeError,
    "A bug",
  );
});
