import { assert, assertEquals, assertThrows } from "@std/assert";
import { FencedStore } from "../../examples/fenced_store.ts";
import { type ChildProcess, startChild } from "../../testing/processes/child.ts";

const OPENER = new URL("../../testing/examples/testdata/fenced_opener.ts", import.meta.url);
const WRITER = new URL("../../testing/examples/testdata/fenced_writer.ts", import.meta.url);

async function openFolder(): Promise<AsyncDisposable & { path: string }> {
  const dir = await Deno.makeTempDir({ prefix: "holdfast-" });
  const path = `${dir}/store.db`;
  return { path, [Symbol.asyncDispose]: () => Deno.remove(dir, { recursive: true }) };
}

Deno.test("FencedStore.write() refuses the token of an earlier lease, separately for each key", async () => {
  await using folder = await openFolder();
  {
    using store = new FencedStore(folder.path);
    assertEquals(store.read("a"), null);
    assert(store.write("a", "first", 5n));
    assert(store.write("a", "second", 5n)); // a lease may write twice
    assert(!store.write("a", "late", 4n));
    assert(store.write("b", "other", 1n));
    assertEquals(store.read("a"), { value: "second", fence: 5n });
  }
  using store = new FencedStore(folder.path);
  assert(!store.write("a", "late", 4n), "the token survives a reopening");
  assertEquals(store.read("b"), { value: "other", fence: 1n });
});

Deno.test("FencedStore.raise() makes write() refuse earlier leases, and keeps the value", async () => {
  await using folder = await openFolder();
  using store = new FencedStore(folder.path);
  assert(store.raise("new", 2n));
  assertEquals(store.read("new"), { value: "", fence: 2n });
  assert(!store.write("new", "late", 1n));
  assert(store.write("new", "first", 2n));
  assert(store.raise("new", 2n));
  assert(store.raise("new", 3n));
  assert(!store.raise("new", 2n));
  assert(!store.write("new", "late", 2n));
  assertEquals(store.read("new"), { value: "first", fence: 3n });
  assertThrows(() => store.raise("new", 2n ** 63n), RangeError, "63 bits");
});

Deno.test("FencedStore.write() takes tokens of up to 63 bits and throws for larger ones", async () => {
  await using folder = await openFolder();
  using store = new FencedStore(folder.path);
  const greatest = 2n ** 63n - 1n;
  assert(store.write("a", "almost", greatest - 1n)); // equal to the next token as a JavaScript number
  assert(store.write("a", "last", greatest));
  assert(!store.write("a", "late", greatest - 1n));
  assertEquals(store.read("a"), { value: "last", fence: greatest });
  assertThrows(() => store.write("a", "x", greatest + 1n), RangeError, "63 bits");
  assertThrows(() => store.write("a", "x", -1n), RangeError);
});

async function answerOf(child: ChildProcess, tokens: readonly number[]): Promise<boolean[]> {
  await child.send(tokens.join(" "));
  return JSON.parse((await child.line())!);
}

Deno.test("FencedStore.write() refuses a token smaller than that of another process", async () => {
  await using folder = await openFolder();
  const { path } = folder;
  await using a = startChild(WRITER, { path, key: "k", value: "a" });
  await using b = startChild(WRITER, { path, key: "k", value: "b" });
  assertEquals(await answerOf(a, [1]), [true]);
  assertEquals(await answerOf(b, [2]), [true]);
  assertEquals(await answerOf(a, [1, 2, 1]), [false, true, false]);
  assertEquals(await answerOf(b, [1, 3]), [false, true]);
  using store = new FencedStore(path);
  assertEquals(store.read("k"), { value: "b", fence: 3n });
  await Promise.all([a.end(), b.end()]);
});

Deno.test("FencedStore.write() keeps the greatest token when two processes write at once", async () => {
  await using folder = await openFolder();
  const { path } = folder;
  await using a = startChild(WRITER, { path, key: "k", value: "a" });
  await using b = startChild(WRITER, { path, key: "k", value: "b" });
  using store = new FencedStore(path);
  await Promise.all([answerOf(a, [0]), answerOf(b, [0])]); // both run
  const seen: bigint[] = [];
  let isWriting = true;
  const watching = (async () => {
    for (; isWriting; await new Promise((resolve) => setTimeout(resolve))) {
      seen.push(store.read("k")?.fence ?? 0n);
    }
  })();
  const rounds = Array.from({ length: 20 }, (_, i) => i * 50);
  const all = async (child: ChildProcess, odd: number) => {
    const answers: boolean[] = [];
    for (const round of rounds) {
      const tokens = Array.from({ length: 50 }, (_, i) => 2 * (round + i) + odd);
      answers.push(...await answerOf(child, tokens));
    }
    return answers;
  };
  const [evens, odds] = await Promise.all([all(a, 0), all(b, 1)]);
  isWriting = false;
  await watching;
  assertEquals(odds.at(-1), true, "the greatest token is accepted");
  assertEquals([evens.length, odds.length], [1_000, 1_000]);
  assertEquals(store.read("k"), { value: "b", fence: 1_999n });
  assert(
    seen.every((fence, i) => i === 0 || seen[i - 1]! <= fence),
    "the stored token never decreases",
  );
  await Promise.all([a.end(), b.end()]);
});

Deno.test("FencedStore can be created by several processes at once", async () => {
  await using folder = await openFolder();
  await using stack = new AsyncDisposableStack();
  const openers = Array.from({ length: 4 }, () => stack.use(startChild(OPENER, null)));
  for (let i = 0; i < 100; i++) {
    await Promise.all(openers.map(async (opener) => {
      await opener.send(`${folder.path}-${i}`);
      assertEquals(await opener.line(), "true");
    }));
  }
  await Promise.all(openers.map((opener) => opener.end()));
});
