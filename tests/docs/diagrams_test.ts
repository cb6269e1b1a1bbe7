/**
 * The Mermaid diagrams of the documentation begin and end as Mermaid expects. How they look, only eyes
 * can tell: render a diagram once when you change it.
 */
import { assert, assertEquals } from "@std/assert";

const ROOT = new URL("../../", import.meta.url);
const TYPES = /^(?:sequenceDiagram|stateDiagram-v2|flowchart (?:TD|LR))$/;
/** The words that open a block, which the word `end` closes. */
const OPENERS = /^(?:loop|alt|opt|par|critical|break|rect|box|subgraph)\b/;
const BRACKETS = { "(": ")", "[": "]", "{": "}" } as const;

interface Diagram {
  readonly file: string;
  readonly lines: readonly string[];
}

function pages(folder = "docs/"): string[] {
  return [...Deno.readDirSync(new URL(folder, ROOT))].flatMap(({ name, isDirectory }) => {
    if (isDirectory) return pages(`${folder}${name}/`);
    return name.endsWith(".md") ? [folder + name] : [];
  });
}

function diagramsIn(file: string, text: string): Diagram[] {
  return [...text.matchAll(/^```mermaid\n([^]*?)^```$/gm)].map(([, block = ""]) => ({
    file,
    lines: block.trimEnd().split("\n").map((line) => line.trim()),
  }));
}

/** Why Mermaid would refuse a diagram; undefined if nothing here finds a reason. */
function problemOf({ lines: [type = "", ...lines] }: Diagram): string | undefined {
  if (!TYPES.test(type)) return `the type "${type}"`;
  if (lines.length === 0) return "nothing in it";
  const opened = lines.filter((line) => OPENERS.test(line)).length;
  const closed = lines.filter((line) => line === "end").length;
  if (opened !== closed) return `${opened} blocks and ${closed} ends`;
  return lines.find((line) => !isBalanced(line));
}

/** Whether brackets and quotes of a line are closed; an arrow may end with a bracket. */
function isBalanced(line: string): boolean {
  const text = line.replace(/-?-[)x>]+\)?/, " ").replaceAll(/"[^"]*"/g, "");
  const open: string[] = [];
  for (const character of text) {
    if (character in BRACKETS) open.push(BRACKETS[character as keyof typeof BRACKETS]);
    else if (/[)\]}]/.test(character) && open.pop() !== character) return false;
  }
  return open.length === 0 && !text.includes('"');
}

Deno.test("each Mermaid diagram has a known type, and its blocks are closed", () => {
  const diagrams = ["README.md", ...pages()].flatMap((file) =>
    diagramsIn(file, Deno.readTextFileSync(new URL(file, ROOT)))
  );
  assert(diagrams.length >= 4, `${diagrams.length}: too few`);
  const problems = diagrams.flatMap((diagram) => {
    const problem = problemOf(diagram);
    return problem === undefined ? [] : [`${diagram.file}: ${problem}`];
  });
  assertEquals(problems, []);
});

Deno.test("the check of diagrams finds an unknown type, an open block and an open bracket", () => {
  const problem = (...lines: string[]) => problemOf({ file: "", lines });
  assertEquals(problem("sequenceDiagram", "loop a", "A->>B: b (c)", "A-)B: d", "end"), undefined);
  assertEquals(problem("flowchart TD", 'a["b (c"] --> d'), undefined);
  assertEquals(problem("sequence", "A->>B: b"), 'the type "sequence"');
  assertEquals(problem("sequenceDiagram"), "nothing in it");
  assertEquals(problem("sequenceDiagram", "loop a", "A->>B: b"), "1 blocks and 0 ends");
  assertEquals(problem("flowchart TD", 'a["b" --> c'), 'a["b" --> c');
  assertEquals(problem("flowchart TD", 'a["b] --> c'), 'a["b] --> c');
});
