/**
 * Reads the files with certificates that a URL names.
 *
 * @module
 */
import { readFile } from "node:fs/promises";
import { LockSetupError } from "../core/contract/errors.ts";
import { text } from "../core/contract/options.ts";

/** Options with paths of PEM files. */
export const TLS_FILES = {
  caFile: text({ min: 1 }),
  certFile: text({ min: 1 }),
  keyFile: text({ min: 1 }),
};

/** The same, as texts, named as `node:tls` names them. */
export interface TlsTexts {
  ca?: string;
  cert?: string;
  key?: string;
}

/** @throws {LockSetupError} If a file cannot be read. */
export async function readTlsFiles(
  { caFile, certFile, keyFile }: { readonly [Name in keyof typeof TLS_FILES]?: string | undefined },
): Promise<TlsTexts> {
  const texts: TlsTexts = {};
  for (const [member, path] of [["ca", caFile], ["cert", certFile], ["key", keyFile]] as const) {
    if (path === undefined) continue;
    try {
      texts[member] = await readFile(path, "utf8");
    } catch (cause) {
      const { code } = cause as { readonly code?: string };
      const text =
        `Cannot read '${member}File', ${path} (${code}): is the path right, and may this user ` +
        "read it?";
      throw new LockSetupError(text, undefined, { cause });
    }
  }
  return texts;
}
