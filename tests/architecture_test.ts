import { assert, assertEquals } from "@std/assert";
import { type ImportGraph, violations } from "../tools/architecture/check.ts";
import { filesIn, readImports, specifiersIn } from "../tools/architecture/imports.ts";
import { LAYERS } from "../tools/architecture/rules.ts";

function graphOf(imports: Readonly<Record<string, readonly string[]>>): ImportGraph {
  return new Map(Object.entries(imports));
}

/** Finds the violations of a single import, without the names of the rules. */
function judge(file: string, imported: string): string[] {
  const found = violations(graphOf({ [file]: [imported], [imported]: [] }), LAYERS);
  return found.map((violation) => violation.split(": ")[0]!);
}

Deno.test("violations() finds none in this repository: imports follow the layers, without circles", () => {
  const graph = readImports();
  const count = [...graph.values()].reduce((sum, { length }) => sum + length, 0);
  assert(graph.size > 200 && count > 700, `${graph.size} files, ${count} imports: too few`);
  assertEquals(violations(graph, LAYERS).join("\n"), "");
});

Deno.test("no entry but ./testing loads anything of fake/, and that loads nothing of a strategy", () => {
  const { exports } = JSON.parse(Deno.readTextFileSync("deno.json")) as {
    exports: Record<string, string>;
  };
  const graph = readImports();
  for (const [entry, path] of Object.entries(exports)) {
    const loaded = new Set<string>();
    const load = (file: string) => {
      if (loaded.has(file)) return;
      loaded.add(file);
      graph.get(file)?.forEach(load);
    };
    load(path.slice("./".length));
    assert(loaded.size > 1, entry);
    const wrong = [...loaded].filter((file) =>
      entry === "./testing" ? !/^(fake|core)\//.test(file) : file.startsWith("fake/")
    );
    assertEquals(wrong, [], entry);
  }
});

Deno.test("tests/ contains only tests and their data", () => {
  const others = filesIn("tests/").filter((file) => !/_test\.ts$|\/testdata\//.test(file));
  assertEquals(others, []);
});

Deno.test("violations() allows imports from lower layers", () => {
  for (
    const [file, imported] of [
      ["core/a.ts", "core/b.ts"],
      ["redis/redis_lock.ts", "redis/waiting/inbox.ts"],
      ["redis/acquisition.ts", "redis/options.ts"],
      ["redis/waiting/inbox.ts", "redis/protocol/keys.ts"],
      ["redis/clients/ioredis.ts", "redis/clients/internal/a.ts"],
      ["zookeeper/recipe/a.ts", "zookeeper/session/session.ts"],
      ["http/koa.ts", "http/internal/request.ts"],
      ["http/internal/fastify/route.ts", "http/internal/request.ts"],
      ["lock_service/mod.ts", "http/shared/problem.ts"],
      ["fencing/http.ts", "http/shared/problem.ts"],
      ["fencing/redis.ts", "redis/client.ts"],
      ["fake/fake_lock.ts", "core/a.ts"],
      ["tests/a_test.ts", "testing/runner/main.ts"],
      ["examples/demo/server.ts", "testing/servers/find.ts"],
    ] as const
  ) assertEquals(judge(file, imported), [], `${file} → ${imported}`);
});

Deno.test("violations() finds imports from upper layers and across blocks", () => {
  for (
    const [file, imported] of [
      ["core/a.ts", "redis/client.ts"],
      ["redis/acquisition.ts", "redis/redis_lock.ts"],
      ["redis/waiting/inbox.ts", "redis/acquisition.ts"],
      ["redis/protocol/keys.ts", "redis/waiting/inbox.ts"],
      ["redis/client.ts", "redis/protocol/keys.ts"],
      ["redis/clients/ioredis.ts", "redis/protocol/keys.ts"],
      ["redis/clients/ioredis.ts", "redis/clients/node_redis.ts"],
      ["zookeeper/connection/a.ts", "zookeeper/session/session.ts"],
      ["zookeeper/session/a.ts", "zookeeper/recipe/own_znode.ts"],
      ["redis/redis_lock.ts", "zookeeper/zookeeper_lock.ts"],
      ["file/file_lock.ts", "memory/memory_lock.ts"],
      ["http/internal/a.ts", "http/koa.ts"],
      ["http/koa.ts", "redis/client.ts"],
      ["http/shared/problem.ts", "http/internal/options.ts"],
      ["http/internal/request.ts", "http/internal/lambda/answer.ts"],
      ["fencing/http.ts", "http/internal/options.ts"],
      ["lock_service/mod.ts", "http/internal/options.ts"],
      ["mod.ts", "fake/fake_lock.ts"],
      ["memory/memory_lock.ts", "fake/fake_clock.ts"],
      ["fake/fake_lock.ts", "memory/memory_lock.ts"],
      ["core/a.ts", "testing/runtime/tests.ts"],
      ["testing/servers/a.ts", "tests/core/a_test.ts"],
      ["examples/worker.ts", "tests/core/a_test.ts"],
      ["tests/core/a_test.ts", "tests/core/b_test.ts"],
    ] as const
  ) assertEquals(judge(file, imported), [`${file} → ${imported}`]);
});

Deno.test("violations() names the broken rule, and reports files that belong to no layer", () => {
  assertEquals(violations(graphOf({ "core/a.ts": ["file/mod.ts"] }), LAYERS), [
    "core/a.ts → file/mod.ts: core/ may import core/ only",
  ]);
  assertEquals(violations(graphOf({ "utils/a.ts": [] }), LAYERS), [
    "utils/a.ts: belongs to no layer of tools/architecture/rules.ts",
  ]);
});

Deno.test("violations() reports import circles, but not a diamond", () => {
  const diamond = {
    "core/a.ts": ["core/b.ts", "core/c.ts"],
    "core/b.ts": ["core/d.ts"],
    "core/c.ts": ["core/d.ts"],
    "core/d.ts": [],
  };
  assertEquals(violations(graphOf(diamond), LAYERS), []);
  assertEquals(violations(graphOf({ ...diamond, "core/d.ts": ["core/b.ts"] }), LAYERS), [
    "core/b.ts → core/d.ts → core/b.ts: no import circles",
  ]);
  assertEquals(violations(graphOf({ "core/a.ts": ["core/a.ts"] }), LAYERS), [
    "core/a.ts → core/a.ts: no import circles",
  ]);
});

Deno.test("specifiersIn() finds all kinds of imports, but none in comments", () => {
  const source = `
    /** \`import a from "./comment.ts"\` */
    // import "./line.ts";
    import type { A } from "./type.ts";
    import {
      b,
    } from "./long.ts";
    import "./effect.ts";
    export * from "./star.ts";
    export type { C } from "./export.ts";
    const d = await import("./dynamic.ts");
    type E = typeof import("./typeof.ts");
  `;
  const names = ["type", "long", "effect", "star", "export", "dynamic", "typeof"];
  assertEquals(specifiersIn(source), names.map((name) => `./${name}.ts`));
});
