/**
 * The links of the pages of the npm package: some of the files that they lead to are not in it.
 *
 * @module
 */
import { posix } from "node:path";

/** The target of an image, and of a link; without addresses and targets within the page. */
const TARGET = /(?![a-z][a-z+.-]*:|#|\/)([^)\s#]+)/;
const IMAGE = new RegExp(`(!\\[[^\\]]*\\]\\()${TARGET.source}`, "gi");
const LINK = new RegExp(`(\\]\\()${TARGET.source}`, "gi");

/** What links depend on. */
export interface LinkTargets {
  /** Whether a file, by its path from the root, is in the package. */
  isPacked(path: string): boolean;
  /** The project's address. */
  readonly repository: string;
  readonly version: string;
}

/**
 * Rewrites the links of a Markdown page to files that are not in the package: they lead to the repository,
 * to the files of this version.
 *
 * @param page The path of the page from the root.
 */
export function packedLinks(page: string, markdown: string, targets: LinkTargets): string {
  const { isPacked, repository, version } = targets;
  const rewrite = (kind: "raw" | "blob") => (link: string, before: string, target: string) => {
    const goal = posix.join(posix.dirname(page), target).replace(/\/$/, "");
    return isPacked(goal) ? link : `${before}${repository}/${kind}/v${version}/${goal}`;
  };
  // Images first: their address, which is absolute then, is that of the file, not of a page about it.
  return markdown.replaceAll(IMAGE, rewrite("raw")).replaceAll(LINK, rewrite("blob"));
}
