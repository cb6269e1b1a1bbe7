import { assertEquals } from "@std/assert";
import { decodeMessage } from "../../../redis/protocol/messages.ts";

const LOCK_KEY = "lock:é\n}";
const VALUE = "a b/c#0123456789abcdef";
const GRANT = `grant 1795216967916034 1795216967916 3000\n${VALUE}\n${LOCK_KEY}`;

Deno.test("decodeMessage() reads grants, free locks and steals", () => {
  const rest = { lockKey: LOCK_KEY, value: VALUE };
  assertEquals(decodeMessage(GRANT), {
    ...{ kind: "grant", ...rest, serverMs: 1_795_216_967_916, claimMs: 3_000 },
    fencingToken: 1_795_216_967_916_034n,
  });
  assertEquals(decodeMessage("grant 1 0 0\na\nb"), {
    ...{ kind: "grant", lockKey: "b", value: "a", serverMs: 0, claimMs: 0, fencingToken: 1n },
  });
  assertEquals(decodeMessage(`free\n${VALUE}\n${LOCK_KEY}`), { kind: "free", ...rest });
  assertEquals(decodeMessage(`stolen\n${VALUE}\n${LOCK_KEY}`), { kind: "stolen", ...rest });
});

Deno.test("decodeMessage() ignores more words in the first line", () => {
  const [head, ...rest] = GRANT.split("\n");
  const longer = [`${head} 00-4bf92f3577b34da6-01 more`, ...rest].join("\n");
  assertEquals(decodeMessage(longer), decodeMessage(GRANT));
  assertEquals(decodeMessage(`free more\na\nb`), decodeMessage("free\na\nb"));
});

Deno.test("decodeMessage() returns null for any other text", () => {
  const others = [
    "",
    "\n",
    "\n\n",
    "{}",
    "hello",
    "grant",
    "free\na",
    "freedom\na\nb",
    "x\na\nb",
    "g\na\n1\n1\n1\nb",
    "grant\na\nb",
    "grant 1\na\nb",
    "grant 1 1\na\nb",
    "grant 1 1 \na\nb",
    "grant  1 1\na\nb",
    "grant  1 1 1\na\nb",
    "grant 1  1 1\na\nb",
    "grant 1 1  1\na\nb",
    "grant no 1 1\na\nb",
    "grant 0 1 1\na\nb",
    "grant 1.5 1 1\na\nb",
    "grant 99999999999999999999 1 1\na\nb",
    "grant 1 x y\na\nb",
    "grant 1 1e999 1\na\nb",
    "grant 1 1 1",
    "grant 1 1 1\na",
  ];
  for (const text of others) assertEquals(decodeMessage(text), null, JSON.stringify(text));
});
