import { assertEquals, assertThrows } from "@std/assert";
import { labelOfValue, ownerValue } from "../../../redis/protocol/keys.ts";
import { evictionWarning } from "../../../redis/protocol/commands.ts";
import {
  decodeAsk,
  decodeLeave,
  decodeQuery,
  decodeRenew,
  DONE,
  GONE,
  GRANTED,
  HAS_LEFT_BEFORE,
  HELD,
  HOLDER_IS_OURS,
  isLate,
  NOTIFIED,
  OTHER_OWNER,
  QUEUED,
  SEARCHING,
  TOO_LATE,
} from "../../../redis/protocol/wire.ts";
import { FINISHED, HOLDER_IS_FOREIGN } from "../../../testing/redis/wire_names.ts";
import { makeOwnerId } from "../../../core/contract/options.ts";

Deno.test("decodeAsk(), decodeRenew(), decodeLeave() and decodeQuery() throw on a reply that no script sends", () => {
  for (const decode of [decodeAsk, decodeRenew, decodeLeave, decodeQuery]) {
    for (const reply of [null, undefined, "OK", 1, {}, [], [null], ["x"], [7], [-7]]) {
      assertThrows(() => decode(reply), Error, "", `${decode.name} of ${JSON.stringify(reply)}`);
    }
  }
});

Deno.test("decodeAsk(), decodeRenew(), decodeLeave() and decodeQuery() read each item, and replies without their last ones", () => {
  const granted = { state: "granted" as const, serverMs: 5, fencingToken: 7n };
  assertEquals(decodeAsk([GRANTED, 5, 6, 7]), { ...granted, validMs: 6, otherWaiters: 0 });
  assertEquals(decodeAsk([GRANTED, 5, 0, 7, 8]), { ...granted, validMs: 0, otherWaiters: 8 });
  assertEquals(decodeAsk([GRANTED, 5, -1, 7]), { ...granted, validMs: Infinity, otherWaiters: 0 });
  assertEquals(decodeAsk([HELD, 5, 6]), { state: "held", serverMs: 5, leftMs: 6, waiters: 0 });
  const queued = {
    ...{ state: "queued" as const, serverMs: 5, leftMs: 6, ticket: 7, position: 8 },
    ...{ waiters: 9, inboxWaiters: 10 },
  };
  const items = [QUEUED, 5, 6, 7, 8, 9, 10];
  assertEquals(decodeAsk([...items, HOLDER_IS_OURS]), {
    ...queued,
    holderIsOurs: true,
    ownHolder: null,
  });
  assertEquals(decodeAsk([...items, HOLDER_IS_FOREIGN, "v"]), {
    ...queued,
    holderIsOurs: false,
    ownHolder: "v",
  });
  const late = [[TOO_LATE, 5], [QUEUED, TOO_LATE], [null], null].map(isLate);
  assertEquals(late, [true, false, false, false]);
  assertEquals(decodeRenew([DONE, -1]), { state: "held", validMs: Infinity });
  assertEquals(decodeRenew([DONE, 0]), { state: "held", validMs: 0 });
  assertEquals(decodeRenew([GONE]), { state: "lost", reason: "expired" });
  assertEquals(decodeRenew([OTHER_OWNER]), { state: "lost", reason: "stolen" });
  const left = { isNotified: true, isSearching: false, hasLeftBefore: false };
  assertEquals(decodeLeave([DONE, NOTIFIED, FINISHED]), { answer: { state: "released" }, ...left });
  assertEquals(decodeLeave([OTHER_OWNER, 0, SEARCHING, HAS_LEFT_BEFORE]), {
    answer: { state: "gone", reason: "stolen" },
    ...{ isNotified: false, isSearching: true, hasLeftBefore: true },
  });
  // RESP2 says that there is no holder by null, RESP3 by false, and some clients by undefined.
  for (const none of [null, false, undefined]) {
    const { value, digest, fencingToken } = decodeQuery([none, none, -2, "0", 0, []]);
    assertEquals([value, digest, fencingToken], [null, null, 0n]);
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
