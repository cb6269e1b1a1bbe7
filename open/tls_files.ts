import { readFile } from "node:fs/promises";
import { LockSetupError } from "../core/contract/errors.ts";
import { text } from "../core/contract/options.ts";

/** Options with paths of PEM files. */
export const TLS_FILES = {
  caFile: text({ min: 1 }),
  certFile: text({ min: 1 }),
  keyFile: text({ min: 1 }),
};

/**
 * Reads them, and names their texts as `node:tls` does.
 *
 * @throws {LockSetupError} If a file cannot be read.
 */
export async function readTlsFiles(
  { caFile, certFile, keyFile }: { readonly [Name in keyof typeof TLS_FILES]?: string | undefined },
): Promise<Partial<Record<"ca" | "cert" | "key", string>>> {
  const texts: Partial<Record<"ca" | "cert" | "key", string>> = {};
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
