/** A request that is slower than its reservation, as in a process that was suspended. */
import { assertEquals, assertRejects } from "@std/assert";
import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { actions } from "../../lock_service/lock_actions.ts";
import { redisReservations, type ReservedPlace } from "../../lock_service/mod.ts";
import { Reservations } from "../../lock_service/reservations.ts";
import { RequestError } from "../../lock_service/request_error.ts";
import { RedisLock } from "../../redis/mod.ts";
import { held } from "../../testing/lock_service/held_leases.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

const TTL_MS = 10_000;
const LIFE_MS = 100;

for (const isSlow of [true, false]) {
  const what = isSlow
    ? "releases a lease whose request was slower than its reservation"
    : "does not release a lease whose reservation is missing too early: an earlier PUT may have got it";
  Deno.test(`lockRoutes() PUT ${what}`, async () => {
    await using redis = await startRedis();
    const { client, close } = await openRedisClient("node-redis", redis.url);
    {
      await using lock = new RedisLock(client);
      const store = redisReservations(client);
      const other: ReservedPlace = {
        ...{ principal: "alice", resource: "leases", subject: "other", nonce: "other" },
      };
      const reservationKeys = async () =>
        await redis.command("KEYS", "holdfast:1:limits:*") as string[];
      const reserve: typeof store.reserve = async (place, state, lifeMs, limit) => {
        if (state === "settled") {
          const areOver = async () => (await reservationKeys()).length === 0;
          if (isSlow) await waitUntil("its reservation has ended", areOver);
          else await redis.command("DEL", ...await reservationKeys());
          await store.reserve(other, "open", TTL_MS, 1);
        }
        return await store.reserve(place, state, lifeMs, limit);
      };
      const settledNonce = (place: ReservedPlace) => store.settledNonce(place);
      const giveBack = (place: ReservedPlace) => store.giveBack(place);
      const limits = { store: { reserve, settledNonce, giveBack } as typeof store, maxLeases: 1 };
      const error = await assertRejects(() =>
        actions.PUT({
          lock,
          reservations: new Reservations(
            limits,
            undefined,
            () => {},
            isSlow ? LIFE_MS - TTL_MS : TTL_MS,
          ),
          response: new ServerResponse(new IncomingMessage(new Socket())),
          closing: new AbortController().signal,
          request: { raw: { url: "/lock/a/i" }, routeOptions: { url: "/lock/*" }, headers: {} },
          limits: { defaultTtlMs: TTL_MS, maxTtlMs: TTL_MS, maxWaitMs: 0, retryAfterMs: undefined },
          authorize: () => "alice",
          challenge: "Bearer",
        }), RequestError);
      assertEquals((error as RequestError).problem.status, 429);
      assertEquals(await held(redis, "alice"), isSlow ? 0 : 1);
    }
    await close();
  });
}
