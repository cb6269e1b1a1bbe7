/**
 * The connection of an inbox only listens, so that TCP itself must notice when it has died silently.
 */
import { assertEquals } from "@std/assert";
import { Redis } from "ioredis";
import { ioredis } from "../../redis/clients/ioredis.ts";
import { endIoredis } from "../../testing/redis/clients.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

// 0 is the default of ioredis 5: the system then asks after two hours.
for (const [set, used] of [[0, 30_000], [5_000, 5_000]] as const) {
  Deno.test(`ioredis() keeps the inbox's connection alive by TCP: 'keepAlive' ${set} makes it ${used} ms`, async () => {
    await using server = await startRedis();
    const client = new Redis({ host: server.hostname, port: server.port, keepAlive: set });
    const copies: Redis[] = [];
    const duplicate = client.duplicate.bind(client);
    client.duplicate = (options) => {
      const copy = duplicate(options);
      copies.push(copy);
      return copy;
    };
    const end = new AbortController();
    await ioredis(client).subscribe!("channel", () => {}, () => end.abort(), end.signal);
    assertEquals(copies.map(({ options }) => options.keepAlive), [used]);
    await waitUntil("the copy has ended", () => copies[0]!.status === "end");
    await endIoredis(client);
  });
}
