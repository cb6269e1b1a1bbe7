/** The order endpoints of the examples, with locks on Redis. */
import { ENDPOINTS, orderOnce } from "../../testing/examples/orders.ts";
import { redisPlace } from "../../testing/examples/programs.ts";

for (const framework of ENDPOINTS) {
  Deno.test(`examples/web/${framework}.ts ships an order once in two processes, with locks on Redis`, async () => {
    await using place = await redisPlace();
    await orderOnce(framework, place);
  });
}
