/**
 * The snippets of the pages: that each is read, is valid, and that a broken one fails. `tests/npm/` runs
 * them.
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { parseCurl } from "../../testing/docs/curl.ts";
import { startSourceService } from "../../testing/docs/source_service.ts";
import { DENO, fits, NPM_RUNTIMES, runtimesOf } from "../../testing/docs/snippet_runtimes.ts";
import {
  runSnippet,
  type SnippetServer,
  snippetServer,
  withPlace,
} from "../../testing/docs/snippet_runs.ts";
import { checkSnippets, typedSnippets } from "../../testing/docs/snippet_types.ts";
import {
  documentedPages,
  documentedSnippets,
  type Snippet,
  snippetsIn,
} from "../../tools/docs/snippets.ts";

/** The test files that run the snippets of each kind. */
const SUITES: Readonly<Record<SnippetServer, string>> = {
  "none": "snippets_test.ts",
  "redis": "redis_snippets_test.ts",
  "redis-cluster": "redis_cluster_snippets_test.ts",
  "redis-sentinel": "redis_sentinel_snippets_test.ts",
  "redis-sentinel-tls": "redis_sentinel_snippets_test.ts",
  "redis-tls": "redis_snippets_test.ts",
  "zookeeper": "zookeeper_snippets_test.ts",
  "zookeeper-tls": "zookeeper_snippets_test.ts",
};
const ORIGIN = "http://127.0.0.1:1";
const PLACE = { origin: ORIGIN };
const SHORT_MS = 2_000;

Deno.test("every snippet of every page belongs to a suite that runs it, on at least one runtime", () => {
  const snippets = documentedSnippets();
  const pages = documentedPages();
  for (
    const page of [
      "README.md",
      "CONTRIBUTING.md",
      "docs/fencing.md",
      "docs/adr/0001-release-and-loss.md",
    ]
  ) {
    assert(pages.includes(page), page);
  }
  // Counted without the reader of blocks.
  const fences = pages.flatMap((page) =>
    Deno.readTextFileSync(page).split("\n").filter((line) =>
      /^\s*[`~]{3,}\s*(js(?!on)|java|type)/i.test(line)
    )
  );
  assertEquals(snippets.length, fences.length);
  assert(snippets.length > 20, `${snippets.length} snippets: too few`);
  for (const snippet of snippets) {
    const file = SUITES[snippetServer(snippet)];
    const suite = Deno.readTextFileSync(new URL(`../npm/${file}`, import.meta.url));
    assert(suite.includes(`snippetSuite("${snippetServer(snippet)}"`), file);
    assert(runtimesOf(snippet, false).length > 0, `${snippet.file}:${snippet.line}`);
  }
});

Deno.test("typedSnippets() leaves most snippets for deno task check", () => {
  const snippets = typedSnippets(documentedSnippets());
  assert(snippets.length > 18, `${snippets.length} snippets: too few`);
});

Deno.test("checkSnippets() names the line of what is wrong", async () => {
  const wrong = snippetOf(
    'import { MemoryLock } from "@holdfast/lock";\nnew MemoryLock({ no: 1 });\n',
  );
  const { message } = await assertRejects(() => checkSnippets([wrong]), Error);
  assert(/\ba\.md:4:\d+/.test(message), message);
});

Deno.test("snippetsIn() reads code, line, runtimes and use, and leaves out other languages", () => {
  const comment = "// Bun, Node 24 or later";
  const page = ["```sh", "ls", "```", "", "```js bun node>=24", comment, "", "  b;", "```", ""];
  const [snippet, ...others] = snippetsIn("a.md", page.join("\n"));
  assertEquals(others, []);
  assertEquals(snippet, {
    ...{ file: "a.md", line: 5, info: "js bun node>=24", code: `${comment}\n\n  b;\n` },
    targets: [{ kind: "bun", since: 0 }, { kind: "node", since: 24 }],
    use: { kind: "program" },
  });
  const names = NPM_RUNTIMES.filter((runtime) => fits(snippet!, runtime)).map(({ name }) => name);
  assertEquals(names.map((name) => name.split(".")[0]), ["Node 24", "Node 26", "Bun 1"]);
  assertEquals(runtimesOf(snippet!, false).map(({ name }) => name), names.slice(0, 1));
  const curl = "curl -X POST localhost:8080/a";
  assertEquals(useOf(`app.listen(8080); // ${curl}`), { kind: "server", curl });
  const lambda = "// aws --payload '{}' a.json\nexport const handler = 1;";
  assertEquals(useOf(lambda), { kind: "lambda", payload: "{}" });
  assertEquals(useOf(`export const POST = a; // ${curl}`), { kind: "route", curl });
  assertEquals(snippetsIn("a.md", '```ts mod.ts\n} from "./core/contract/errors.ts";\n```\n'), []);
});

Deno.test("snippetsIn() throws for a block that it cannot read", () => {
  for (
    const [page, problem] of [
      ["```js\na;\n", "the code block has no end"],
      ["```\na;\n```\n", 'the language is ""'],
      ["```ts\na;\n```\n", 'the language is "ts"'],
      ["```ts mod.ts\nno, it is not;\n```\n", "the block is not in mod.ts"],
      ["```ts missing.ts\na;\n```\n", "the block is not in missing.ts"],
      ["```js\nexport function GET() {}\n```\n", "a server needs a comment"],
      ["```javascript\na;\n```\n", 'the language is "javascript"'],
      ["```js demo\na;\n```\n", '"demo" is not a runtime'],
      [
        "```js deno node>=24\na;\n```\n",
        'its first line must be "// Deno, Node 24 or later", which readers see',
      ],
      ["```js\napp.listen(8080);\n```\n", "a server needs a comment"],
      ["```js\nexport const handler = 1;\n```\n", "a Lambda function needs a comment"],
    ] as const
  ) {
    assertThrows(() => snippetsIn("a.md", page), Error, `a.md:1: ${problem}`);
  }
});

Deno.test("withPlace() replaces the addresses of a snippet, and nothing else", () => {
  const code = 'new Redis("redis://127.0.0.1:6379"); fetch("https://example.com/a"); listen(8080);';
  assertEquals(
    withPlace(snippetOf(code), { origin: ORIGIN, address: "18080" }, 16379).code,
    `new Redis("redis://127.0.0.1:18080"); fetch("${ORIGIN}/a"); listen(16379);\n`,
  );
  for (
    const [code, problem] of [
      ["createClient();", "must name its server 6379"],
      ['new Valkey("redis://127.0.0.1:6379");', "must not name 6379"],
    ] as const
  ) {
    const place = { origin: ORIGIN, address: "7" };
    assertThrows(
      () => withPlace(snippetOf(code), place, 9),
      Error,
      `a.md:2: the snippet ${problem}`,
    );
  }
});

Deno.test("parseCurl() reads the request of a command, and refuses options that it does not know", () => {
  const command = `curl -X PUT localhost:1/a -H "A: b c" -d '{"d":1}'`;
  assertEquals(parseCurl(command), {
    ...{ url: "http://localhost:1/a", method: "PUT", body: '{"d":1}' },
    headers: { connection: "close", A: "b c" },
  });
  assertThrows(() => parseCurl("curl -k localhost:1"), Error, '"-k"');
  assertThrows(() => parseCurl("curl -X GET"), Error, "no URL");
});

/** Snippets that are broken, and what is said of each. */
const BROKEN: Readonly<Record<string, readonly [code: string, problem: string]>> = {
  "throws": ["await 1;\nthrow new Error('no');", "exited with 1"],
  "prints an error": ["console.error('no');", "printed errors"],
  "stays open": ["setInterval(() => {}, 1_000);", "did not end"],
  "does not listen": [
    "if (0) app.listen(8080); // curl localhost:8080/",
    "ended before it answered",
  ],
  "answers with an error": [
    `import { createServer } from "node:http";
     const server = createServer((_request, response) => response.writeHead(500).end());
     server.listen(8080); // curl localhost:8080/
     process.once("SIGTERM", () => server.close());`,
    "answered 500 to curl localhost:",
  ],
  "is ended by SIGTERM": [
    `import { createServer } from "node:http";
     createServer((_request, response) => response.end()).listen(8080); // curl localhost:8080/`,
    "exited with 143",
  ],
  "is a route that fails": [
    "export const GET = () => new Response(null, { status: 409 }); // curl localhost:8080/",
    "exited with 1",
  ],
  "cannot be invoked": [
    "// --payload '{}'\nexport const handler = () => ({ statusCode: 503 });",
    "exited with 1",
  ],
};

Deno.test("runSnippet() runs programs, servers, routes and Lambda functions that work", async () => {
  for (
    const code of [
      "await fetch('https://example.com/');",
      `import { createServer } from "node:http";
       const server = createServer((_request, response) => response.end());
       server.listen(8080); // curl localhost:8080/
       process.once("SIGTERM", () => server.close());`,
      `export const POST = (request) => new Response(answerTo(request)); // curl -X POST localhost:8080/a
       function answerTo({ method, url }) { return method + new URL(url).pathname; }`,
      "// --payload '{\"status\":200}'\nexport const handler = (event) => event;",
    ]
  ) {
    await using service = await startSourceService();
    await runSnippet(snippetOf(code), DENO, { origin: service.origin });
  }
});

for (const [title, [code, problem]] of Object.entries(BROKEN)) {
  Deno.test(`runSnippet() rejects for a snippet that ${title}`, async () => {
    const boundMs = problem === "did not end" ? SHORT_MS : undefined;
    const run = runSnippet(snippetOf(code), DENO, PLACE, boundMs);
    await assertRejects(() => run, Error, `a.md:2: the snippet ${problem}`);
  });
}

function snippetOf(code: string): Snippet {
  return snippetsIn("a.md", `\n\`\`\`js\n${code}\n\`\`\`\n`)[0]!;
}

function useOf(code: string) {
  return snippetOf(code).use;
}
