/**
 * Makes the links of a page absolute: the files that they lead to are not in the npm package.
 *
 * @module
 */

/** The target of an image, and of a link; without addresses and targets within the page. */
const TARGET = /(?![a-z][a-z+.-]*:|#|\/)(?:\.\/)?([^)\s]+)/;
const IMAGE = new RegExp(`(!\\[[^\\]]*\\]\\()${TARGET.source}`, "gi");
const LINK = new RegExp(`(\\]\\()${TARGET.source}`, "gi");

/** Rewrites the relative links of a Markdown page in the root to the files of one version. */
export function absoluteLinks(markdown: string, repository: string, version: string): string {
  // Images first: their address, which is absolute then, is that of the file, not of a page about it.
  return markdown.replaceAll(IMAGE, `$1${repository}/raw/v${version}/$2`)
    .replaceAll(LINK, `$1${repository}/blob/v${version}/$2`);
}
