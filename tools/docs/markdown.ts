/**
 * Reads the structure of a Markdown page as GitHub does: what is code, and which anchors headings have.
 *
 * @module
 */

/** The start or the end of a block of code. The end has at least as many marks as the start. */
const FENCE = /^ *(?:[-*] +|\d+\. +)?(`{3,}|~{3,})(.*)$/;
/** Code in a line, between the same number of backticks; it may span lines. */
const CODE_SPAN = /(?<!`)(`+)(?!`)([^]*?[^`])\1(?!`)/g;
const COMMENT = /<!--[^]*?-->/g;
const HEADING = /^ {0,3}#{1,6} +(.*?)(?: +#+)? *$/gm;
const ID = /<[a-z][^>]*?\b(?:id|name)="([^"]+)"/gi;
/** The text of a link or an image, and its target. */
const LINK = /!?\[([^[\]]*)\]\([^)]*\)/g;
/** The characters that GitHub removes from an anchor: all but letters, marks, digits, `_`, `-`, spaces. */
const REMOVED = /[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu;

/** The page with spaces instead of blocks and spans of code and comments: lines keep their numbers. */
export function withoutCode(page: string): string {
  return withoutBlocks(page).replaceAll(COMMENT, blank).replaceAll(CODE_SPAN, blank);
}

function withoutBlocks(page: string): string {
  let open: string | null = null;
  return page.split("\n").map((line) => {
    const [, marks = "", info = ""] = FENCE.exec(line) ?? [];
    if (open === null) {
      if (marks === "" || (marks.startsWith("`") && info.includes("`"))) return line;
      open = marks;
    } else if (marks.startsWith(open) && info.trim() === "") open = null;
    return "";
  }).join("\n");
}

function blank(text: string): string {
  return text.replaceAll(/[^\n]/g, " ");
}

/** The anchors of a page: those of its headings, and the ids that it sets in HTML. */
export function anchorsOf(page: string): string[] {
  const text = withoutBlocks(page).replaceAll(COMMENT, blank);
  const counts = new Map<string, number>();
  const headings = [...text.matchAll(HEADING)].map(([, heading = ""]) => {
    const slug = slugOf(heading);
    const count = counts.get(slug) ?? 0;
    counts.set(slug, count + 1);
    return count === 0 ? slug : `${slug}-${count}`;
  });
  return [...headings, ...[...text.matchAll(ID)].map(([, id = ""]) => id)];
}

/** The anchor that GitHub gives to the first heading with this text. */
export function slugOf(heading: string): string {
  // Emphasis by underscores has no meaning inside words, and backticks are removed with the rest.
  const text = heading.replaceAll(LINK, "$1").replaceAll(/<[^>]+>/g, "")
    .replaceAll(/(?<![\p{L}\p{N}])_([^_]+)_(?![\p{L}\p{N}])/gu, "$1");
  return text.trim().toLowerCase().replaceAll(REMOVED, "").replaceAll(" ", "-");
}
