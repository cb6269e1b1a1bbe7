/**
 * Reads the programs in the Markdown pages: the code blocks whose language is `js`.
 *
 * @module
 */
import { existsSync, readFileSync } from "node:fs";
import { filesIn } from "../architecture/imports.ts";

const ROOT = new URL("../../", import.meta.url);
/** The page for language models is Markdown, too. */
const PAGE = /\.md$|^llms\.txt$/;
/** A translation. Its code blocks are those of the original, which a test compares. */
const TRANSLATION = /\.zh-CN\.md$/;
const FENCE = /^ *```(.*)$/;
/** The languages of blocks that are not programs of a reader. */
const OTHER_LANGUAGES = ["sh", "text", "sql", "python", "diff", "json", "yaml", "mermaid"];
/** A runtime behind `js`, such as `deno` or `node>=24`. */
const RUNTIME = /^(deno|node|bun)(?:>=(\d+))?$/;
/** The start of a program that listens. */
const LISTENS = /\.listen\(|\bserve\(/;
/** A function by the name of its method, as in a route of Next.js. */
const EXPORTS_ROUTE = /^export (?:const|(?:async )?function) (?:GET|POST|PUT|PATCH|DELETE)\b/m;
const CURL = /\/\/ (curl .*)$/m;
const PAYLOAD = /--payload '(.*?)'/;

/** A runtime that a snippet is for. */
export interface SnippetTarget {
  readonly kind: "deno" | "node" | "bun";
  /** The least major version; 0 if any will do. */
  readonly since: number;
}

/** A code block of a page. */
export interface Block {
  readonly file: string;
  /** The line of its opening fence. */
  readonly line: number;
  /** The words behind the opening fence. */
  readonly info: string;
  readonly code: string;
}

/**
 * How the reader uses a program: starts it, also sends it a request, puts it into a folder of routes, or
 * gives it to Lambda.
 */
export type SnippetUse =
  | { readonly kind: "program" }
  | { readonly kind: "server" | "route"; readonly curl: string }
  | { readonly kind: "lambda"; readonly payload: string };

/** A program of a page. */
export interface Snippet extends Block {
  readonly targets: readonly SnippetTarget[];
  readonly use: SnippetUse;
}

/** All runtimes, for a block that names none. */
const ALL_TARGETS: readonly SnippetTarget[] = [
  { kind: "deno", since: 0 },
  { kind: "node", since: 0 },
  { kind: "bun", since: 0 },
];

/** The pages, by their paths from the root, without translations. */
export function documentedPages(): string[] {
  return filesIn("").filter((file) => PAGE.test(file) && !TRANSLATION.test(file));
}

/** The programs of all pages. */
export function documentedSnippets(): Snippet[] {
  return documentedPages().flatMap((file) =>
    snippetsIn(file, readFileSync(new URL(file, ROOT), "utf8"))
  );
}

/**
 * The programs of a page. A block in `ts` is not a program, but a part of a file that tests run; its path is
 * behind the language.
 *
 * @throws {Error} If a block has no language, one that is not known, or an unknown runtime; if a server
 * does not say how to send it a request, or a Lambda function how to invoke it; if a block in `ts` is not in
 * its file.
 */
export function snippetsIn(file: string, page: string): Snippet[] {
  return blocksIn(file, page).flatMap((block) => {
    const [language = "", ...words] = block.info.split(" ");
    if (OTHER_LANGUAGES.includes(language)) return [];
    if (language === "ts" && words.length === 1) return checkQuoted(block, words[0]!);
    if (language === "js") {
      return [{ ...block, targets: targetsOf(block, words), use: useOf(block) }];
    }
    throw problem(block, `the language is "${language}": programs of the pages are "js"`);
  });
}

/** All code blocks of a page. */
export function blocksIn(file: string, page: string): Block[] {
  const blocks: Block[] = [];
  let open: { line: number; info: string; code: string[] } | null = null;
  for (const [index, text] of page.split("\n").entries()) {
    const info = FENCE.exec(text)?.[1];
    if (info === undefined) {
      open?.code.push(text);
    } else if (open === null) {
      open = { line: index + 1, info: info.trim(), code: [] };
    } else {
      blocks.push({ ...open, file, code: `${open.code.join("\n")}\n` });
      open = null;
    }
  }
  if (open !== null) throw new Error(`${file}:${open.line}: the code block has no end`);
  return blocks;
}

/** Checks that a block is a part of a file. There is no program in it. */
function checkQuoted(block: Block, path: string): [] {
  const url = new URL(path, ROOT);
  const isThere = existsSync(url) && readFileSync(url, "utf8").includes(block.code.trim());
  if (isThere) return [];
  throw problem(block, `the block is not in ${path}`);
}

/** The runtimes that a block names. A rendered page does not show them, so its first line must, too. */
function targetsOf(block: Block, words: readonly string[]): readonly SnippetTarget[] {
  if (words.length === 0) return ALL_TARGETS;
  const targets = words.map((word) => {
    const [, kind, since = "0"] = RUNTIME.exec(word) ?? [];
    if (kind === undefined) throw problem(block, `"${word}" is not a runtime`);
    return { kind: kind as SnippetTarget["kind"], since: Number(since) };
  });
  const comment = `// ${targets.map(titleOf).join(", ")}`;
  const [first = ""] = block.code.split("\n");
  if (first === comment || first.startsWith(`${comment}:`)) return targets;
  throw problem(block, `its first line must be "${comment}", which readers see`);
}

function titleOf({ kind, since }: SnippetTarget): string {
  const name = kind.charAt(0).toUpperCase() + kind.slice(1);
  return since === 0 ? name : `${name} ${since} or later`;
}

function useOf(block: Block): SnippetUse {
  const { code } = block;
  const curl = CURL.exec(code)?.[1];
  const isServer = LISTENS.test(code);
  if (isServer || EXPORTS_ROUTE.test(code)) {
    if (curl !== undefined) return { kind: isServer ? "server" : "route", curl };
    throw problem(block, "a server needs a comment such as // curl localhost:8080/");
  }
  if (/^export const handler\b/m.test(code)) {
    const payload = PAYLOAD.exec(code)?.[1];
    if (payload !== undefined) return { kind: "lambda", payload };
    throw problem(block, "a Lambda function needs a comment with --payload '…'");
  }
  return { kind: "program" };
}

function problem({ file, line }: Block, text: string): Error {
  return new Error(`${file}:${line}: ${text}`);
}
