/**
 * Counts lines of code: without blanks and comments. A line of more than 100 columns counts as the lines
 * that its columns would fill, so that long lines save nothing.
 *
 * @module
 */

/** The width of a line in `deno.json`. */
const WIDTH = 100;
/** A comment of Lua, or a string, in which `--` is none. */
const LUA_TOKEN =
  /--\[(=*)\[[^]*?\]\1\]|--[^\n]*|\[(=*)\[[^]*?\]\2\]|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"/g;

/** Where something begins and ends in a text. */
export type Span = readonly [start: number, end: number];

/** Counts the lines of a text. */
export function countLines(text: string, comments: readonly Span[]): number {
  let code = "";
  let end = 0;
  for (const [from, to] of comments) {
    // Only a comment of several lines leaves breaks behind.
    code += text.slice(end, from) + text.slice(from, to).replaceAll(/[^\n]/g, "");
    end = to;
  }
  const lines = (code + text.slice(end)).split("\n").map((line) => line.trimEnd());
  return lines.reduce((sum, line) => sum + Math.ceil([...line].length / WIDTH), 0);
}

/** Finds the comments of a Lua script. */
export function luaComments(text: string): Span[] {
  return [...text.matchAll(LUA_TOKEN)].filter(([token]) => token.startsWith("--"))
    .map(({ index, 0: token }) => [index, index + token.length]);
}
