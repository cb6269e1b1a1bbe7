/**
 * Finds the links of the Markdown pages, and those that lead nowhere. External links are listed, not
 * fetched.
 *
 * @module
 */
import { existsSync, readFileSync, statSync } from "node:fs";
import { posix } from "node:path";
import { filesIn } from "../architecture/imports.ts";
import { anchorsOf, withoutCode } from "./markdown.ts";
import { documentedPages } from "./snippets.ts";

const ROOT = new URL("../../", import.meta.url);
/** An image, which may be the text of a link. */
const IMAGE = /!\[[^\]]*\]\(\s*<?([^)>\s]+)>?[^)]*\)/g;
const LINK = /\[(?:[^[\]]|\[[^[\]]*\])*\]\(\s*<?([^)>\s]*)>?(?:\s+"[^"]*")?\s*\)/g;
/** `[text][name]`, and `[name]: target`. */
const REFERENCE = /\[[^[\]]+\]\[([^[\]]+)\]/g;
const DEFINITION = /^ {0,3}\[([^\]]+)\]:\s*<?([^>\s]+)/gm;
const AUTOLINK = /<([a-z][a-z+.-]*:[^>\s]+)>/gi;
const ATTRIBUTE = /<[a-z][^>]*?\b(?:href|src|srcset)="([^"\s]+)[^"]*"/gi;
const SCHEME = /^[a-z][a-z+.-]*:/i;
/** A line of a source file on GitHub. */
const LINE = /^L(\d+)(?:-L(\d+))?$/;

/** A link, an image, or the definition of a link. */
export interface Link {
  /** The page that has it, by its path from the root. */
  readonly file: string;
  /** Counts from 1. */
  readonly line: number;
  readonly target: string;
}

/** The files that links can lead to. */
export interface Files {
  /** Returns the text of a file; `null` if there is none; an empty text for a folder. */
  read(path: string): string | null;
}

/** The files of this project. */
export const PROJECT: Files = {
  read(path) {
    const url = new URL(path.replaceAll("%", "%25").replaceAll("#", "%23"), ROOT);
    if (!existsSync(url)) return null;
    return statSync(url).isDirectory() ? "" : readFileSync(url, "utf8");
  },
};

/** All Markdown pages of the project, those of `.github/` too, and the page for language models. */
export function linkedPages(): string[] {
  return [...documentedPages(), ...filesIn(".github/").filter((file) => file.endsWith(".md"))];
}

/** The links of a page, in the order of their lines. Code has none. */
export function linksIn(file: string, page: string): Link[] {
  const text = withoutCode(page);
  const images = [...text.matchAll(IMAGE)];
  const rest = text.replaceAll(IMAGE, (image) => image.replaceAll(/[^\n]/g, " "));
  const definitions = [...text.matchAll(DEFINITION)];
  const names = new Set(definitions.map(([, name = ""]) => name.toLowerCase()));
  const unknown = [...rest.matchAll(REFERENCE)]
    .filter(([, name = ""]) => !names.has(name.toLowerCase()));
  const found = [
    ...[images, rest.matchAll(LINK), rest.matchAll(AUTOLINK), rest.matchAll(ATTRIBUTE)]
      .flatMap((matches) => [...matches].map((match) => ({ match, target: match[1] ?? "" }))),
    ...definitions.map((match) => ({ match, target: match[2] ?? "" })),
    ...unknown.map((match) => ({ match, target: `[${match[1]}]` })),
  ];
  return found.map(({ match, target }) => ({ file, line: lineAt(text, match.index), target }))
    .sort((a, b) => a.line - b.line);
}

function lineAt(text: string, index: number): number {
  return text.slice(0, index).split("\n").length;
}

/** Whether a link leads out of the project. */
export function isExternal({ target }: Link): boolean {
  return SCHEME.test(target);
}

/** Why a link leads nowhere, as `a.md:1: b.md: there is no such file`; `null` if it leads somewhere. */
export function problemOf(link: Link, files: Files = PROJECT): string | null {
  const reason = isExternal(link) ? externalProblem(link) : relativeProblem(link, files);
  return reason === null ? null : `${link.file}:${link.line}: ${link.target}: ${reason}`;
}

function externalProblem({ target }: Link): string | null {
  if (!URL.canParse(target)) return "this is no URL";
  const { protocol, hostname, username } = new URL(target);
  if (protocol !== "https:") return "external links begin with https:";
  return /^[a-z0-9-]+(?:\.[a-z0-9-]+)+$/.test(hostname) && username === ""
    ? null
    : "this is not a host";
}

function relativeProblem({ file, target }: Link, files: Files): string | null {
  if (target.startsWith("[")) return "this name of a link is not defined";
  if (target === "" || target.startsWith("/")) return "links within the project are relative";
  const [path = "", anchor] = target.split("#");
  const goal = path === ""
    ? file
    : posix.join(posix.dirname(file), decodeURIComponent(path)).replace(/\/$/, "");
  if (goal === ".." || goal.startsWith("../")) return "it leads out of the project";
  const text = files.read(goal);
  if (text === null) return "there is no such file";
  if (anchor === undefined) return null;
  return hasAnchor(goal, text, decodeURIComponent(anchor)) ? null : "there is no such anchor";
}

function hasAnchor(path: string, text: string, anchor: string): boolean {
  if (path.endsWith(".md")) return anchorsOf(text).includes(anchor);
  const [, from, to = from] = LINE.exec(anchor) ?? [];
  const lines = text.split("\n").length;
  return from !== undefined && Number(from) >= 1 && Number(from) <= Number(to) &&
    Number(to) <= lines;
}
