/** The order endpoints of the examples, with locks on Redis. */
import { ENDPOINTS, orderOnce, orderOnceAfterFreeze } from "../../testing/examples/orders.ts";
import { redisPlace } from "../../testing/examples/programs.ts";

for (const framework of ENDPOINTS) {
  Deno.test(`examples/web/${framework}.ts ships an order once in two processes, with locks on Redis`, async () => {
    await using place = await redisPlace();
    await orderOnce(framework, place);
  });
}

Deno.test("examples/web/shop.ts ships an order once when the lock passed on while its holder was frozen", async () => {
  await using place = await redisPlace();
  await orderOnceAfterFreeze("fetch", place);
});
