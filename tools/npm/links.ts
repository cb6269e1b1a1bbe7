/**
 * Makes the links of a page absolute: the files that they lead to are not in the npm package.
 *
 * @module
 */

/** The target of a link or an image, without those that are addresses or lead into the page. */
const RELATIVE_TARGET = /(\]\()(?![a-z][a-z+.-]*:|#|\/)(?:\.\/)?([^)\s]+)/gi;

/** Rewrites the relative links of a Markdown page in the root to the files of one version. */
export function absoluteLinks(markdown: string, repository: string, version: string): string {
  return markdown.replaceAll(RELATIVE_TARGET, `$1${repository}/blob/v${version}/$2`);
}
