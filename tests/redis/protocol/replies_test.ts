import { assertEquals, assertThrows } from "@std/assert";
import { labelOfValue, ownerValue } from "../../../redis/protocol/keys.ts";
import { evictionWarning } from "../../../redis/protocol/commands.ts";
import { decodeAsk, decodeLeave, decodeQuery, decodeRenew } from "../../../redis/protocol/wire.ts";
import { makeOwnerId } from "../../../core/contract/options.ts";

Deno.test("decodeAsk(), decodeRenew(), decodeLeave() and decodeQuery() throw on a reply that no script sends", () => {
  for (const decode of [decodeAsk, decodeRenew, decodeLeave, decodeQuery]) {
    for (const reply of [null, undefined, "OK", 1, {}, [], [null], ["x"], [7], [-7]]) {
      assertThrows(() => decode(reply), Error, "", `${decode.name} of ${JSON.stringify(reply)}`);
    }
  }
});

Deno.test("labelOfValue() returns a label only if this library wrote the owner value", () => {
  assertEquals(
    labelOfValue(ownerValue(makeOwnerId("billing-1"), "0".repeat(16))),
    "billing-1",
  );
  assertEquals(labelOfValue(ownerValue("job-7")), undefined);
  assertEquals(labelOfValue("a plain token"), undefined);
});

Deno.test("evictionWarning() warns when the server has a memory limit and evicts keys", () => {
  const info = (limit: number, policy: string) =>
    `used_memory:1\r\nmaxmemory:${limit}\r\nmaxmemory_policy:${policy}\r\n`;
  assertEquals(evictionWarning(info(100, "noeviction")), null);
  assertEquals(evictionWarning(info(0, "allkeys-lru")), null);
  assertEquals(evictionWarning(info(100, "volatile-ttl"))?.includes("volatile-ttl"), true);
  assertEquals(evictionWarning(""), null);
});
