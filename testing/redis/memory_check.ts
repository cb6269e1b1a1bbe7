/**
 * The command that a `RedisLock` sends after its first answer, beside all calls: a test that counts or loses
 * commands first waits for its reply.
 *
 * @module
 */
import { within } from "../conformance/bounds.ts";
import type { RedisLock } from "../../redis/mod.ts";
import type { FaultProxy } from "../servers/proxy.ts";

const decoder = new TextDecoder();

/** Acquires and releases a lock. Resolves when the reply to the check has passed the proxy, too. */
export async function warmUp(lock: RedisLock, proxy: FaultProxy): Promise<void> {
  const { onReply } = proxy;
  const checked = Promise.withResolvers<void>();
  proxy.onReply = (chunk, connection) => {
    if (decoder.decode(chunk).includes("maxmemory_policy:")) checked.resolve();
    return onReply?.(chunk, connection) ?? "pass";
  };
  await (await lock.acquire("warm-up")).release();
  await within("the memory settings are checked", checked.promise);
  proxy.onReply = onReply;
}
