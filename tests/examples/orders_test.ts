/** The order endpoints of the examples, with locks in files. */
import { ENDPOINTS, orderOnce } from "../../testing/examples/orders.ts";
import { filePlace } from "../../testing/examples/programs.ts";

for (const framework of ENDPOINTS) {
  Deno.test(`examples/web/${framework}.ts ships an order once in two processes, with locks in files`, async () => {
    await using place = await filePlace();
    await orderOnce(framework, place);
  });
}
