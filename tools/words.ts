/**
 * Finds phrases that this project does not write: `deno run -A tools/words.ts [FILE…]`. The list is in
 * `docs/design.md`, section "Words we avoid". Without files it checks those of the gate: all `*.ts` and
 * `*.lua` files and all pages. A line that ends with `words: off` is exempt, and so is every line from
 * one that has nothing else to a line with `words: on`.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const LIST = "docs/design.md";
/** The files of the gate. */
const CHECKED = ["*.ts", "*.lua", "*.md", "llms.txt"];
const OFF = "words: off";
const ON = "words: on";

/** The marker of a comment in TypeScript and Lua, or of a heading in Markdown. */
const MARKER = /^\s*(?:\/\*\*?|\*(?!\/)|\/\/|--|#+)(?=\s|$)/;
/** Text that does not continue the line before: a tag, a list item, a row of a table, a code block. */
const NEW_PASSAGE = /^\s*(?:@|- |\d+\. |\||```)/;
/** Two strings on two lines that are joined into one text. */
const JOINED = /["'`]\s*\+(\s*\n\s*)["'`]/g;
/** The words Who or What at the start of a passage, a sentence, a comment, a string or a cell. */
const OPENER = /(?:^\s*|[.!?:]\s+|\/\/ |\/\*\* |(["'`])|[(|]\s?)(Who|What)\s/g;
/** The same in a comment at the end of a line, or in the title of a test, whose first letter is small. */
const SMALL_OPENER = /(?:(?:^|\s)(?:\/\/|--) |(?:\.test\(|harness,|name:)\s*(["'`]))(who|what)\s/g;

/** A phrase that a text must not have. */
export interface Finding {
  /** Counts from 1. */
  readonly line: number;
  readonly phrase: string;
}

/** Lines that are read as one text: a comment, a paragraph, a run of code. */
interface Passage {
  /** The index of its first line. */
  readonly start: number;
  readonly isComment: boolean;
  readonly lines: string[];
}

/**
 * Reads the banned phrases: the lines of the fenced block below the heading "Words we avoid".
 *
 * @throws {Error} If the page has no such block.
 */
export function readList(page: string): string[] {
  const block = /^#+ .*Words we avoid$[^]*?^```text\n([^]*?)^```$/m.exec(page)?.[1];
  if (block === undefined) throw new Error(`Cannot find the banned phrases in ${LIST}`);
  return block.split("\n").map((line) => line.trim()).filter((line) => line !== "");
}

/**
 * Finds banned phrases (whole words, any case, also across lines), and sentences that begin with Who or
 * What and are not questions. Ignores code in backticks inside comments, and names of functions and
 * members.
 */
export function findPhrases(text: string, banned: readonly string[]): Finding[] {
  const words = banned.map(patternOf).join("|");
  const phrases = new RegExp(`(?<![\\w#$]|\\w\\.)(?:${words})(?![\\w(]|\\.\\w)`, "gi");
  return passagesOf(checkedLines(text)).flatMap((passage) => {
    const { start } = passage;
    const passageText = textOf(passage);
    const lineAt = (index: number) => start + passageText.slice(0, index).split("\n").length;
    const found = Array.from(passageText.matchAll(phrases), ({ 0: phrase, index }) => (
      { line: lineAt(index), phrase: phrase.replace(/\s+/g, " ") }
    ));
    const openers = openersIn(passageText).map(({ word, index }) => (
      { line: lineAt(index), phrase: `${word} …` }
    ));
    return [...found, ...openers].sort((a, b) => a.line - b.line);
  });
}

/** The lines, with exempt ones emptied. */
function checkedLines(text: string): string[] {
  let isOff = false;
  return text.split("\n").map((line) => {
    const isExempt = isOff || line.includes(OFF);
    if (line.includes(ON)) isOff = false;
    else if (new RegExp(`^\\W*${OFF}\\W*$`).test(line)) isOff = true;
    return isExempt ? "" : line;
  });
}

function passagesOf(lines: readonly string[]): Passage[] {
  const passages: Passage[] = [];
  let isOpen = false;
  for (const [index, line] of lines.entries()) {
    const marker = MARKER.exec(line)?.[0] ?? "";
    const body = line.slice(marker.length);
    const isComment = marker !== "";
    const last = passages.at(-1);
    const continues = isOpen && last?.isComment === isComment && !NEW_PASSAGE.test(body) &&
      !marker.includes("/*");
    if (continues) last.lines.push(body);
    else passages.push({ start: index, isComment, lines: [body] });
    isOpen = body.trim() !== "" && !body.includes("*/");
  }
  return passages;
}

/** The text of a passage, with as many line ends as it has lines. */
function textOf({ lines, isComment }: Passage): string {
  const text = lines.join("\n");
  if (!isComment) return text.replace(JOINED, (_, space) => ` ${space}`);
  return text.replace(/`[^`\n]*`/g, (code) => "·".repeat(code.length));
}

function openersIn(text: string): { word: string; index: number }[] {
  return [OPENER, SMALL_OPENER].flatMap((opener) =>
    Array.from(text.matchAll(opener)).flatMap(({ 0: start, 1: quote, 2: word = "", index }) => {
      const wordIndex = index + start.lastIndexOf(word);
      const rest = text.slice(wordIndex);
      const sentence = quote === undefined ? rest : rest.split(quote)[0]!;
      const end = /[.?!](?=\s|\*\/|$|["'`)])/.exec(sentence)?.[0];
      return end === "?" ? [] : [{ word, index: wordIndex }];
    })
  );
}

function patternOf(phrase: string): string {
  return phrase.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/\s+/g, "\\s+");
}

/** The files that the gate checks. */
async function checkedFiles(): Promise<string[]> {
  const git = new Deno.Command("git", { args: ["ls-files", ...CHECKED], cwd: ROOT });
  const { success, stdout } = await git.output();
  if (!success) throw new Error("Cannot list the files: run this in a Git checkout");
  return new TextDecoder().decode(stdout).trim().split("\n");
}

async function main(args: readonly string[]): Promise<number> {
  const banned = readList(await Deno.readTextFile(`${ROOT}${LIST}`));
  let count = 0;
  for (const file of args.length > 0 ? args : await checkedFiles()) {
    const text = await Deno.readTextFile(file.startsWith("/") ? file : `${ROOT}${file}`);
    for (const { line, phrase } of findPhrases(text, banned)) {
      console.log(`${file}:${line}: "${phrase}"`);
      count++;
    }
  }
  if (count > 0) console.error(`${count} phrases to replace: see "Words we avoid" in ${LIST}`);
  return count === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main(Deno.args));
