/** The page of the behaviours, which shows that no change of the tests drops one. */
import { assert, assertEquals } from "@std/assert";
import { committedPage, currentPage } from "../../tools/behaviours/main.ts";
import { behavioursPage } from "../../tools/behaviours/page.ts";
import { listSuites } from "../../tools/behaviours/registrations.ts";

Deno.test("docs/behaviours.md lists what the tests register", async () => {
  assertEquals(await committedPage(), await currentPage(), "run deno task behaviours");
});

Deno.test("the default run has each behaviour on each strategy, and each suite and runtime once", async () => {
  const { usual, soak } = await listSuites();
  const strategyOf = (name: string) => name.split(" ", 1)[0]!;
  const pairs = (suites: typeof usual) =>
    suites.flatMap(({ name, runtimes }) =>
      [...runtimes.values()].flat().map((behaviour) => `${strategyOf(name)}: ${behaviour}`)
    );
  assertEquals(new Set(pairs(usual)), new Set(pairs(soak)));
  const runtimes = new Set(usual.flatMap(({ runtimes }) => [...runtimes.keys()]));
  for (const runtime of ["Deno", "Node 22", "Node 24", "Node 26", "Bun"]) {
    assert([...runtimes].some((name) => name.startsWith(runtime)), runtime);
  }
});

Deno.test("behavioursPage() marks what only the soak runs", () => {
  const suite = (runtimes: Record<string, string[]>) => [
    { name: "file", runtimes: new Map(Object.entries(runtimes)) },
  ];
  const usual = suite({ "Deno": ["one"], "Node 24.1.0": ["one"] });
  const soak = suite({ "Deno": ["one", "two"], "Node 24.1.0": ["one"], "Bun 1.3.0": ["one"] });
  const lines = behavioursPage({ usual, soak }).split("\n").map((line) =>
    line.replaceAll(/ +/g, " ")
  );
  for (
    const line of [
      "| file | soak 1 | 1, soak 2 | | 1 | | |",
      "| one | D4+O |",
      "| two | +D |",
    ]
  ) assert(lines.includes(line), `${line}\n${lines.join("\n")}`);
});
