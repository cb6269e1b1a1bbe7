/**
 * Runs the documented servers with all spellings of the URL of one order, and records the locks and
 * fences that they use. The snippets are those of `docs/`, run as they are except for the lock, and the
 * server that they start.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { snippetsIn } from "../../tools/docs/snippets.ts";
import { importMapArgs } from "../../tools/import_map.ts";
import { makeTempDirectory } from "../runtime/temporary_files.ts";
import { runCommand } from "../servers/command.ts";
import { CONDITION_BOUND_MS } from "../time.ts";

const ROOT = new URL("../../", import.meta.url);
const BOUND_MS = CONDITION_BOUND_MS;

/** Paths that a router, a proxy or a client may take for the same order. */
export const SPELLINGS: readonly string[] = [
  "/orders/42",
  "/orders/%34%32",
  "/orders/4%32",
  "/orders/42/",
  "/orders/42?a=b",
  "//orders/42",
  "/Orders/42",
  "/orders/042",
  "/orders/%2042",
  "/orders%2F42",
];
/** Paths of no order. */
export const OTHERS: readonly string[] = [
  "/orders/",
  "/orders/%ff",
  "/orders/a",
  "/orders/4%2F2",
  "/",
];

/** A documented server. */
export interface DocumentedServer {
  readonly file: string;
  /** A text that only this snippet of the file has. */
  readonly having: string;
  /** An expression of a function from a request to a response, made of the snippet's own names. */
  readonly handler: string;
}

/** The response to one request, and the names of the locks or fences that it has used. */
export interface Outcome {
  readonly path: string;
  readonly status: number;
  readonly names: readonly string[];
}

/** Returns the snippet of a document that contains a text. */
export function snippetOf({ file, having }: DocumentedServer): string {
  const snippets = snippetsIn(file, readFileSync(new URL(file, ROOT), "utf8"));
  const found = snippets.filter(({ code }) => code.includes(having));
  if (found.length !== 1) throw new Error(`${file} has ${found.length} snippets with ${having}`);
  return found[0]!.code;
}

/** The script: the snippet, with a lock and fences that record the names, and its requests. */
function scriptOf(server: DocumentedServer, paths: readonly string[]): string {
  const snippet = snippetOf(server)
    .replace(/^import \{ FileLock \}.*\n/m, "")
    .replaceAll("new FileLock()", "recordingLock()")
    .replaceAll("new MemoryFences()", "recordingFences()")
    .replace(/^\/\/ Its client[^]*/m, "")
    .replaceAll("https://example.com", "data:,")
    .replaceAll("8080", "0")
    .replaceAll(/^process\.once\(.*\n/gm, "");
  return `
import { MemoryLock as Recorded } from ${JSON.stringify(new URL("mod.ts", ROOT).href)};
const names = [];
const recordingFences = () => ({ raise: (name) => (names.push(name), true) });
function recordingLock() {
  const locks = new Recorded();
  for (const method of ["acquire", "tryAcquire"]) {
    const inner = locks[method].bind(locks);
    locks[method] = (name, options) => (names.push(name), inner(name, options));
  }
  return locks;
}
${snippet}
const answerTo = ${server.handler};
const outcomes = [];
for (const path of ${JSON.stringify(paths)}) {
  const headers = { "if-fence": "7" };
  const request = new Request("http://localhost" + path, { method: "POST", body: "x", headers });
  const { status } = await answerTo(request);
  outcomes.push({ path, status, names: names.splice(0) });
}
console.log("\\n" + JSON.stringify(outcomes));
Deno.exit(0);
`;
}

/** Runs a documented server, and sends it a request for each of the paths. */
export async function runDocumented(
  server: DocumentedServer,
  paths: readonly string[],
): Promise<Outcome[]> {
  const dir = await makeTempDirectory();
  try {
    const script = `${dir}/snippet.ts`;
    await writeFile(script, scriptOf(server, paths));
    const config = ["--config", fileURLToPath(new URL("deno.json", ROOT)), "--no-lock"];
    const args = ["run", "-A", "-q", "--no-check", ...config, ...await importMapArgs(), script];
    const env = { NO_COLOR: "1" };
    const run = runCommand([process.execPath, ...args], BOUND_MS, { cwd: dir, env });
    const { success, output } = await run;
    if (!success) throw new Error(`${server.file} (${server.having}): ${output}`);
    return JSON.parse(output.trim().split("\n").at(-1)!);
  } finally {
    await rm(dir, { recursive: true });
  }
}
