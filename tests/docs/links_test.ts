/**
 * The links of all Markdown pages: targets and anchors exist, and external addresses are known. Nothing
 * is fetched.
 */
import { assert, assertEquals } from "@std/assert";
import { isExternal, linkedPages, linksIn, problemOf, PROJECT } from "../../tools/docs/links.ts";
import { anchorsOf, slugOf } from "../../tools/docs/markdown.ts";

/** The external addresses of the pages. Open a new one before you add it here. */
const EXTERNAL = [
  "https://github.com/web-platform-tests/wpt/tree/master/web-locks",
  "https://spinroot.com",
  "https://w3c.github.io/web-locks/",
];

/** A project of two pages and a source file. */
const PLANTED: Readonly<Record<string, string>> = {
  "README.md": '# Title\n\n## A part\n\n## A part\n\nText <a id="own"></a>\n',
  "docs/a page.md": "# Über `run()`, _now_\n",
  "docs/mod.ts": "a;\nb;\n",
  "docs": "",
};
/** The problem of each link of a page in `docs/`, without its place; `null` if there is none. */
function problems(page: string): (string | null)[] {
  const files = { read: (path: string) => path === "docs/b.md" ? page : PLANTED[path] ?? null };
  return linksIn("docs/b.md", page).map((link) =>
    problemOf(link, files)?.replace(/^docs\/b\.md:\d+: /, "") ?? null
  );
}

Deno.test("every link of every page leads somewhere", () => {
  const pages = linkedPages();
  for (const page of ["README.md", "llms.txt", "bench/README.md", "docs/adr/README.md"]) {
    assert(pages.includes(page), page);
  }
  assert(pages.includes(".github/pull_request_template.md"), "the pages of .github/");
  const links = pages.flatMap((page) => linksIn(page, PROJECT.read(page)!));
  assert(links.length > 250, `${links.length} links: too few`);
  assertEquals(links.map((link) => problemOf(link)).filter((problem) => problem !== null), []);
  const external = links.filter(isExternal).map(({ target }) => target);
  assertEquals([...new Set(external)].toSorted(), EXTERNAL);
});

Deno.test("problemOf() accepts files, folders, anchors, lines and https that exist", () => {
  const page = [
    "[a](../README.md), [a](../README.md#a-part-1), [a](#c), [a](mod.ts#L1-L2)",
    "# C",
    "[`a` (b)](a%20page.md#über-run-now) [long",
    'text](../README.md#own "title") [![x](mod.ts)](../docs/)',
    '[a][b] <https://example.com/a> <img src="mod.ts">',
    "",
    "[b]: ../README.md#title",
  ];
  assertEquals(problems(page.join("\n")), Array(11).fill(null));
});

const BROKEN: readonly (readonly [page: string, problem: string])[] = [
  ["[a](../NO.md)", "../NO.md: there is no such file"],
  ["![a](no.svg)", "no.svg: there is no such file"],
  ["[![a](no.svg)](mod.ts)", "no.svg: there is no such file"],
  ["[a](../README.md#b-part)", "../README.md#b-part: there is no such anchor"],
  ["[a](../README.md#a-part-2)", "../README.md#a-part-2: there is no such anchor"],
  ["[a](#b)\n```sh\n# b\n```", "#b: there is no such anchor"],
  ["[a](mod.ts#L4)", "mod.ts#L4: there is no such anchor"],
  ["[a](../../b.md)", "../../b.md: it leads out of the project"],
  ["[a](/README.md)", "/README.md: links within the project are relative"],
  ["[a]()", ": links within the project are relative"],
  ["[a][b]", "[b]: this name of a link is not defined"],
  ["[a]: NO.md", "NO.md: there is no such file"],
  ['<img src="no.svg">', "no.svg: there is no such file"],
  ["<http://example.com>", "http://example.com: external links begin with https:"],
  ["[a](https://)", "https://: this is no URL"],
  ["[a](https://example)", "https://example: this is not a host"],
  ["[a](https://u@example.com)", "https://u@example.com: this is not a host"],
];

Deno.test("problemOf() tells why a link leads nowhere", () => {
  for (const [page, problem] of BROKEN) {
    assertEquals(problems(page).filter((each) => each !== null), [problem], page);
  }
});

Deno.test("linksIn() leaves out code and comments, and counts lines", () => {
  const page =
    "`[a](b)` ``[a](`b)``\n<!-- [a](b) -->\n~~~sh\n[a](b)\n~~~\n  ```js\n[a](b)\n  ```\n[c](d)\n";
  assertEquals(linksIn("a.md", page), [{ file: "a.md", line: 9, target: "d" }]);
});

Deno.test("slugOf() and anchorsOf() make anchors as GitHub does", () => {
  for (
    const [heading, slug] of [
      ["Where do I change what", "where-do-i-change-what"],
      ["Why is `release()` sometimes `false`?", "why-is-release-sometimes-false"],
      ["9. Words we avoid", "9-words-we-avoid"],
      ["acquire() and tryAcquire()", "acquire-and-tryacquire"],
      ["A & B - C", "a--b---c"],
      ["See [the _page_](a.md#b)", "see-the-page"],
      ["The DEFAULT_TTL_MS of Größe", "the-default_ttl_ms-of-größe"],
      ["中文 标题，二", "中文-标题二"],
    ] as const
  ) assertEquals(slugOf(heading), slug);
  assertEquals(anchorsOf("# A\n## A ##\n#no\n### A\n```sh\n# B\n```\n"), ["a", "a-1", "a-2"]);
});
