/** The order endpoints of the examples, with locks on Redis. */
import { ENDPOINTS, orderOnce } from "../../testing/examples/orders.ts";
import { redisPlace } from "../../testing/examples/programs.ts";

for (const framework of ENDPOINTS) {
  Deno.test(`an order is shipped once by two ${framework} processes, with locks on Redis`, async () => {
    await using place = await redisPlace();
    await orderOnce(framework, place);
  });
}
