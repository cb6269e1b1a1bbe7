import { assert, assertEquals } from "@std/assert";
import { startRedis } from "../../testing/servers/redis.ts";
import {
  type LockPlace,
  startInstance,
  untilRenewed,
} from "../../testing/http/lambda_instances.ts";
import { CONDITION_BOUND_MS, RENEWED_TTL_MS } from "../../testing/time.ts";

Deno.test("lambdaLock() waits, renews and releases with only the built-ins of Node 22", async () => {
  await using redis = await startRedis();
  await Promise.all((["node-redis", "ioredis"] as const).map(async (client) => {
    const place: LockPlace = {
      ...{ strategy: "redis", client, url: redis.url, keyPrefix: "l:", ttlMs: RENEWED_TTL_MS },
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
    const options = { waitMs: CONDITION_BOUND_MS, ttlMs: RENEWED_TTL_MS };
    const first = instance.invoke({ id: client, key: client, mode: "gate" });
    await instance.report(client, "entered");
    const second = other.invoke({ key: client, options });
    await untilRenewed(redis, `l:${client}`, 4); // its first TTL is over
    await instance.open(client);
    assert((await first).ok, "it was renewed");
    assert((await second).ok);
    assertEquals(await redis.command("EXISTS", `l:${client}`), 0);
    assertEquals([await instance.finish(), await other.finish()], [0, 0]);
  }));
});
