import { assert, assertEquals } from "@std/assert";
import { startRedis } from "../../testing/servers/redis.ts";
import { ENDING_TTL_MS } from "../../testing/time.ts";
import {
  type LockPlace,
  startInstance,
  untilRenewed,
} from "../../testing/http/lambda_instances.ts";
import { CONDITION_BOUND_MS } from "../../testing/time.ts";

Deno.test("lambdaLock() waits, renews and releases with only the built-ins of Node 22", async () => {
  await using redis = await startRedis();
  for (const client of ["node-redis", "ioredis"] as const) {
    const place: LockPlace = {
      ...{ strategy: "redis", client, url: redis.url, keyPrefix: "l:", ttlMs: ENDING_TTL_MS },
    };
    await using instance = await startInstance(
      place,
      "shared",
      "../../testing/http/lambda_instance_node22.ts",
    );
    await using other = await startInstance(
      place,
      "factory",
      "../../testing/http/lambda_instance_node22.ts",
    );
    const options = { waitMs: CONDITION_BOUND_MS, ttlMs: ENDING_TTL_MS };
    const first = instance.invoke({ id: client, key: "k", mode: "gate" });
    await instance.report(client, "entered");
    const second = other.invoke({ key: "k", options });
    await untilRenewed(redis, "l:k", 4); // its first TTL is over
    await instance.open(client);
    assert((await first).ok, "it was renewed");
    assert((await second).ok);
    assertEquals(await redis.command("EXISTS", "l:k"), 0);
    assertEquals([await instance.finish(), await other.finish()], [0, 0]);
  }
});
