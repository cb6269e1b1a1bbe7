import { assert, assertEquals, assertThrows } from "@std/assert";
import { findPhrases, readList } from "../../tools/words.ts";

const BANNED = ["all the same", "is told", "mend"]; // words: off

function found(text: string): [line: number, phrase: string][] {
  return findPhrases(text, BANNED).map(({ line, phrase }) => [line, phrase]);
}

// words: off
Deno.test("findPhrases() finds a planted phrase in comments, strings and Markdown, in any case", () => {
  assertEquals(found("const a = 1;\n// It works all the same.\n"), [[2, "all the same"]]);
  assertEquals(found('throw new Error("The waiter Is told");'), [[1, "Is told"]]);
  assertEquals(found("| a cell | all  the same |"), [[1, "all the same"]]);
  assertEquals(found("is told, and is told"), [[1, "is told"], [1, "is told"]]);
});

Deno.test("findPhrases() finds a phrase that continues on the next line", () => {
  assertEquals(found("/**\n * It works all\n * the same.\n */"), [[2, "all the same"]]);
  assertEquals(found("-- The waiter is\n-- told."), [[1, "is told"]]);
  assertEquals(found("A paragraph that works all the\nsame."), [[1, "all the same"]]);
  assertEquals(found('const text = "works all the " +\n  "same";'), [[1, "all the same"]]);
});

Deno.test("findPhrases() does not join separate comments, paragraphs and items", () => {
  assertEquals(found("// It works all\n\n// the same"), []);
  assertEquals(found("- it is\n- told"), []);
  assertEquals(found("/** It is */\n/** told */"), []);
  assertEquals(found("// it is\ntold();"), []);
});

Deno.test("findPhrases() finds sentences that begin with Who or What", () => {
  for (
    const text of [
      "/** What the server gets. */",
      "// Who waits, waits.",
      " * A limit. What exceeds it is lost.",
      "-- Who asks: the waiter.",
      "| word | What it means |",
      'const USAGE = "What a command does";',
      "/**\n * What follows\n * is long.\n */",
      "done(); // what is left is removed",
      'Deno.test("what a hook throws ends the call", () => {});',
      'behaviour(harness, "who waits is served", run);',
    ]
  ) {
    assertEquals(found(text).map(([, phrase]) => phrase.toLowerCase().slice(-1)), ["…"], text);
  }
  assertEquals(found("/**\n * A limit.\n * What exceeds it is lost.\n */"), [[3, "What …"]]);
});

Deno.test("findPhrases() ignores questions", () => {
  for (
    const text of [
      "// Who holds the lock?",
      "/**\n * What happens when the process\n * dies? It is replaced.\n */",
      "## What does it not guarantee?",
      '"What now?"',
      "// The client knows what it sent, and who answered.",
    ]
  ) {
    assertEquals(found(text), [], text);
  }
  assertEquals(found('const a = "What is this", b = c ? 1 : 2;'), [[1, "What …"]]);
});

Deno.test("findPhrases() ignores parts of words, code in backticks and names of members", () => {
  assertEquals(found("// It may amend, recommend and mended."), []);
  assertEquals(found("/** Calls `mend` after a loss. */"), []);
  assertEquals(found("this.#mend(error); link.mend(); mend(1); mend.value;"), []);
  assertEquals(found("/** They mend it. */"), [[1, "mend"]]);
});

Deno.test("findPhrases() exempts marked lines and what is between the markers", () => {
  assertEquals(found("is told // words" + ": off\nis told"), [[2, "is told"]]);
  const block = `<!-- words${": off"} -->\nis told\n\nWhat a line.\n<!-- words${": on"} -->\nmend`;
  assertEquals(found(block), [[6, "mend"]]);
});
// words: on

Deno.test("readList() reads the fenced block below its heading", () => {
  const page = "## 9. Words we avoid\n\nText.\n\n```text\none phrase\n\nanother\n```\n\n## More\n";
  assertEquals(readList(page), ["one phrase", "another"]);
  assertThrows(() => readList("## Words we use"), Error, "Cannot find the banned phrases");
});

Deno.test("readList() finds the list in docs/design.md", () => {
  const page = Deno.readTextFileSync(new URL("../../docs/design.md", import.meta.url));
  const list = readList(page);
  assert(list.includes(BANNED[0]!));
  assertEquals(new Set(list).size, list.length, "no phrase twice");
});
