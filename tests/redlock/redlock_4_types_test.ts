/** The types of version 4: a program that is written for `@types/redlock` 4 compiles with ours. */
import { assertEquals } from "@std/assert";
import type { Redis } from "ioredis";
import { Redlock } from "../../redlock/mod.ts";

/** All of `@types/redlock` but callbacks, disposers, own scripts, and fields that only the package needs. */
async function program(client: Redis): Promise<string | null> {
  const options: Redlock.Options = {
    ...{ driftFactor: 0.01, retryCount: 10, retryDelay: 200, retryJitter: 100 },
  };
  const redlock = new Redlock([client], options);
  redlock.on("clientError", (error: unknown) => error).once("clientError", () => {});
  let lock: Redlock.Lock = await redlock.lock("a", 1_000);
  lock = await lock.extend(1_000);
  lock = await redlock.extend(lock, 1_000);
  const { expiration, resource, value }: { expiration: number; resource: string[]; value: string } =
    lock;
  await lock.unlock();
  const several: Redlock.Lock = await redlock.acquire(["a", "b"], 1_000);
  await redlock.unlock(several);
  await redlock.release(several);
  const patient: Redlock.Lock = await redlock.lockWithOptions("a", 1_000, { retryCount: 20 });
  await patient.unlock();
  await redlock.release(await redlock.acquireWithOptions(["a"], 1_000, { retryDelay: 100 }));
  await redlock.lock("a", 1_000)
    .then((held: Redlock.Lock) => held.unlock())
    .catch((error: unknown) => {
      const isBusy = error instanceof redlock.LockError || error instanceof Redlock.LockError;
      if (!isBusy) throw error;
      const busy: Redlock.LockError = error;
      return busy.message;
    });
  const isOne: boolean = lock instanceof redlock.Lock && lock.redlock === redlock;
  await redlock.quit();
  return isOne && expiration > 0 && resource.length > 0 ? value : null;
}

Deno.test("a program for the types of redlock 4 compiles with Redlock", () => {
  assertEquals(typeof program, "function"); // the type check is the test
});
