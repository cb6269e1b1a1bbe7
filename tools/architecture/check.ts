/**
 * Checks the imports between files: layers and circles.
 *
 * @module
 */
import type { Layer } from "./rules.ts";

/** The files that each file imports, by their paths from the root; imports of types count too. */
export type ImportGraph = ReadonlyMap<string, readonly string[]>;

/** The violations, each as `file → file: rule`. */
export function violations(graph: ImportGraph, layers: readonly Layer[]): string[] {
  return [...layerViolations(graph, layers), ...circles(graph)];
}

function layerViolations(graph: ImportGraph, layers: readonly Layer[]): string[] {
  const found: string[] = [];
  for (const [file, imports] of graph) {
    const layer = layerOf(file, layers);
    if (layer === undefined) {
      found.push(`${file}: belongs to no layer of tools/architecture/rules.ts`);
      continue;
    }
    for (const imported of imports) {
      if (isAllowed(layer, imported, layers)) continue;
      const rule = `${layer.files} may import ${layer.mayImport.join(", ") || "nothing"} only`;
      found.push(`${file} → ${imported}: ${rule}`);
    }
  }
  return found;
}

function layerOf(file: string, layers: readonly Layer[]): Layer | undefined {
  return layers.find(({ files }) => matches(file, files));
}

function matches(file: string, pattern: string): boolean {
  if (pattern.endsWith("/")) return file.startsWith(pattern);
  if (!pattern.endsWith("/*.ts")) return file === pattern;
  const folder = pattern.slice(0, -"*.ts".length);
  return file.startsWith(folder) && !file.slice(folder.length).includes("/");
}

function isAllowed({ mayImport }: Layer, imported: string, layers: readonly Layer[]): boolean {
  const target = layerOf(imported, layers);
  return mayImport.includes(imported) || target !== undefined && mayImport.includes(target.files);
}

/** One circle for each import that closes one, found by depth-first search. */
function circles(graph: ImportGraph): string[] {
  const found: string[] = [];
  const path: string[] = [];
  const isDone = new Set<string>();
  const visit = (file: string) => {
    const start = path.indexOf(file);
    if (start >= 0) found.push(`${[...path.slice(start), file].join(" → ")}: no import circles`);
    if (start >= 0 || isDone.has(file)) return;
    path.push(file);
    for (const imported of graph.get(file) ?? []) visit(imported);
    path.pop();
    isDone.add(file);
  };
  for (const file of graph.keys()) visit(file);
  return found;
}
