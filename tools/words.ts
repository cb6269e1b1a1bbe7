/**
 * Finds phrases that this project does not write: `deno run -A tools/words.ts [FILE…]`. The list is in
 * `docs/design.md`, section "Words we avoid". The gate runs it on code and on two pages of docs.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const LIST = "docs/design.md";
const PAGES = ["CONTRIBUTING.md", LIST];
/** Lines between these markers, or with the first one at their end, are exempt. */
const OFF = "words: off";
const ON = "words: on";

/** A phrase that a text must not have. */
export interface Finding {
  readonly line: number;
  readonly phrase: string;
}

/** Reads the banned phrases: the lines of the fenced block behind the heading "Words we avoid". */
export function readList(page: string): string[] {
  const block = /^#+ .*Words we avoid$[^]*?^```text\n([^]*?)^```$/m.exec(page)?.[1];
  if (block === undefined) throw new Error(`Cannot find the banned phrases in ${LIST}`);
  return block.split("\n").map((line) => line.trim()).filter((line) => line !== "");
}

/** Finds banned phrases (whole words, any case), and sentences that begin with Who or What. */
export function findPhrases(text: string, banned: readonly string[]): Finding[] {
  const lines = checkedLines(text);
  const pattern = new RegExp(`\\b(?:${banned.map(escape).join("|")})\\b`, "gi");
  const findings: Finding[] = [];
  for (const [index, line] of lines.entries()) {
    for (const [phrase] of line.matchAll(pattern)) findings.push({ line: index + 1, phrase });
    const opener = openerOf(line, lines.slice(index + 1));
    if (opener !== null) findings.push({ line: index + 1, phrase: opener });
  }
  return findings;
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

/** Who or What, if a comment or a title begins a sentence with it that is not a question. */
function openerOf(line: string, following: readonly string[]): string | null {
  const start =
    /(?:^\s*(?:\/\*\*|\*|\/\/|--|#+|[-|]) |\/\/ |\/\*\* |[.!:] |["`|] ?)(Who|What) (.*)$/
      .exec(line);
  if (start === null) return null;
  const sentence = [start[2]!, ...following.slice(0, 4)].join(" ");
  const end = /[.?!](?:\s|\*\/|$|["`])/.exec(sentence)?.[0];
  return end?.startsWith("?") ? null : `${start[1]} …`;
}

function escape(phrase: string): string {
  return phrase.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/\s+/g, "\\s+");
}

/** The files that the gate checks. */
async function checkedFiles(): Promise<string[]> {
  const git = new Deno.Command("git", { args: ["ls-files", "*.ts", "*.lua"], cwd: ROOT });
  const { success, stdout } = await git.output();
  if (!success) throw new Error("Cannot list the files: run this in a checkout");
  return [...new TextDecoder().decode(stdout).trim().split("\n"), ...PAGES];
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
