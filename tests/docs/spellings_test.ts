/**
 * Each documented server knows one order under one name, however its URL is spelled: two locks for one
 * order exclude nobody.
 */
import { assert, assertEquals } from "@std/assert";
import {
  type DocumentedServer,
  OTHERS,
  runDocumented,
  SPELLINGS,
} from "../../testing/docs/spellings.ts";
import { examplesIn, publishedExamples } from "../../tools/docs/examples.ts";

const SERVERS: Record<string, DocumentedServer> = {
  "fetch": {
    file: "docs/frameworks.md",
    having: "Deno.serve({ port: 8080 }, ship)",
    handler: "ship",
  },
  "Koa": {
    file: "docs/frameworks.md",
    having: "NO_LOCK",
    handler: `await (async () => {
      if (!server.listening) await new Promise((resolve) => server.once("listening", resolve));
      const origin = "http://127.0.0.1:" + server.address().port;
      return ({ url }) => fetch(url.replace("http://localhost", origin), { method: "POST" });
    })()`,
  },
  "Fastify": {
    file: "docs/frameworks.md",
    having: "await app.register(fastifyLock",
    handler: `async ({ url }) => {
      const { statusCode } = await app.inject({ method: "POST", url: url.slice(16) });
      return { status: statusCode };
    }`,
  },
  "Hono": { file: "docs/frameworks.md", having: "new Hono()", handler: "app.fetch" },
  "the fence of docs/fencing.md": {
    file: "docs/fencing.md",
    having: "const handler = fencedHttp(",
    handler: "handler",
  },
};

for (const [name, server] of Object.entries(SERVERS)) {
  Deno.test(`the snippet of ${name} knows an order under one name, however its URL is spelled`, async () => {
    const outcomes = await runDocumented(server, SPELLINGS);
    const used = new Set(outcomes.flatMap(({ names }) => names));
    assertEquals(used.size, 1, JSON.stringify(outcomes));
    for (const { path, status, names } of outcomes) {
      // A spelling is either the same order, or none.
      const isServed = status === 200 || status === 204;
      assert(isServed ? names.length > 0 : [400, 404].includes(status), `${path}: ${status}`);
      assertEquals(names.length > 0, isServed, path);
    }
    assert(outcomes[0]!.names.length > 0, "the plain spelling is served");
    for (const { path, status, names } of await runDocumented(server, OTHERS)) {
      assert([400, 404].includes(status), `${path}: ${status}`);
      assertEquals(names, [], path);
    }
  });
}

/** A key or a fence that is made of a URL as the client has spelled it. */
const SPELLED = /\.(?:pathname|path|url)\}|=> (?:new URL\(.*\)\.pathname|request\.url)\b/;

Deno.test("no documented key or fence is made of the URL as the client has spelled it", () => {
  const documents = ["README.md", ...["docs", "examples", "examples/web"].flatMap(filesOf)];
  const codes = [
    ...publishedExamples(),
    ...documents.flatMap((file) => {
      const text = Deno.readTextFileSync(file);
      return file.endsWith(".ts")
        ? [{ file, code: text }, ...examplesIn(file, text)]
        : [{ file, code: text }];
    }),
  ];
  assert(codes.length > 60, `${codes.length}: too few`);
  const spelled = codes.flatMap(({ file, code }) =>
    code.split("\n").filter((line) => SPELLED.test(line) && !/fetch\(|console|Deno\./.test(line))
      .map((line) => `${file}: ${line.trim()}`)
  );
  assertEquals(spelled, []);
});

function filesOf(dir: string): string[] {
  return [...Deno.readDirSync(dir)].filter(({ name }) => /\.(?:md|ts)$/.test(name))
    .map(({ name }) => `${dir}/${name}`);
}
