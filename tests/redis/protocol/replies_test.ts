import { assertEquals, assertThrows } from "@std/assert";
import { labelOfValue, makeOwner, ownerValue } from "../../../redis/protocol/owner_value.ts";
import { evictionWarning } from "../../../redis/protocol/eviction.ts";
import {
  decodeAsk,
  decodeLeave,
  decodeQuery,
  decodeRenew,
  isNoScript,
  refusalOf,
} from "../../../redis/protocol/replies.ts";
import { makeOwnerId } from "../../../core/owner_id.ts";

Deno.test("refusalOf() tells the server's own words from a client's", () => {
  const passing = [
    "LOADING Redis is loading",
    "-READONLY You can't write",
    "OOM command not allowed",
  ];
  for (const text of passing) assertEquals(refusalOf(new Error(text))?.passing, true, text);
  const lasting = ["NOPERM this user", "WRONGTYPE Operation against", "ERR unknown command"];
  for (const text of lasting) assertEquals(refusalOf(new Error(text))?.passing, false, text);
  const unknown = [
    "connect ECONNREFUSED 127.0.0.1:6379",
    "ECONNRESET",
    "Socket closed unexpectedly",
    "Connection is closed.",
    "",
  ];
  for (const text of unknown) assertEquals(refusalOf(new Error(text)), null, text);
});

Deno.test("isNoScript() knows both spellings", () => {
  assertEquals(isNoScript(new Error("NOSCRIPT No matching script")), true);
  assertEquals(isNoScript(new Error("-NOSCRIPT No matching script.")), true);
  assertEquals(isNoScript(new Error("ERR NOSCRIPT")), false);
});

Deno.test("what no script says is no answer: neither held, nor lost, nor free", () => {
  for (const decode of [decodeAsk, decodeRenew, decodeLeave, decodeQuery]) {
    for (const reply of [null, undefined, "OK", 1, {}, [], [null], ["x"], [7], [-7]]) {
      assertThrows(() => decode(reply), Error, "", `${decode.name} of ${JSON.stringify(reply)}`);
    }
  }
});

Deno.test("an owner value shows its label only if we wrote it", () => {
  assertEquals(labelOfValue(ownerValue(makeOwner(makeOwnerId("billing-1"), true))), "billing-1");
  assertEquals(labelOfValue(ownerValue(makeOwner("job-7", false))), undefined);
  assertEquals(labelOfValue("a plain token"), undefined);
});

Deno.test("evictionWarning() warns where a full memory evicts", () => {
  const info = (limit: number, policy: string) =>
    `used_memory:1\r\nmaxmemory:${limit}\r\nmaxmemory_policy:${policy}\r\n`;
  assertEquals(evictionWarning(info(100, "noeviction")), null);
  assertEquals(evictionWarning(info(0, "allkeys-lru")), null);
  assertEquals(evictionWarning(info(100, "volatile-ttl"))?.includes("volatile-ttl"), true);
  assertEquals(evictionWarning(""), null);
});
